//! The result of [`super::bind`].

pub use super::symbol_type::{Binding, Definer, Relative, RelocationKind, SymbolClass, SymbolType};
use std::sync::Arc;

use super::object::ObjectSymbols;
use super::versions::MissingVersion;

/// Every binding of one start. Indices of objects are those of `Load::objects`.
#[derive(Clone, Debug)]
pub struct Bindings {
    /// One element for each object of the load set. It is empty for an object of an audit module.
    pub objects: Vec<ObjectBindings>,
    /// The objects that a lookup walks, in order (`Load::scope`).
    pub scope: Vec<usize>,
    /// The objects in the order in which the loader relocates them.
    pub relocation_order: Vec<usize>,
    /// Versions that an object needs and that the named library does not define.
    pub missing_versions: Vec<MissingVersion>,
}

impl Bindings {
    /// Returns the object and binding of every strong reference without a definition, in load
    /// order. A start with such a reference ends with "symbol lookup error", at once or, if the
    /// binding is lazy, at the first call.
    pub fn undefined(&self) -> impl Iterator<Item = (usize, &Binding)> {
        let objects = self.objects.iter().enumerate();
        objects
            .flat_map(|(index, object)| object.bindings.iter().map(move |binding| (index, binding)))
            .filter(|(_, binding)| binding.definer == Definer::Missing)
    }
}

/// The relocations of one object.
#[derive(Clone, Debug, Default)]
pub struct ObjectBindings {
    /// The symbol tables. `None` for an object of an audit module.
    pub symbols: Option<Arc<ObjectSymbols>>,
    /// All relocations except the relative ones ([`ObjectSymbols::relative`],
    /// [`ObjectSymbols::relr`]), in the order in which the loader applies them: those of `DT_REL`,
    /// `DT_RELA`, then `DT_JMPREL`. Within each table `IRELATIVE` is last.
    pub bindings: Vec<Binding>,
    /// True if the loader binds `JUMP_SLOT` relocations at the first call of each function.
    pub lazy: bool,
}

impl ObjectBindings {
    /// Returns the bindings of symbols: all except TLS, copy and `IRELATIVE` relocations.
    pub fn symbolic(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(|binding| binding.kind.is_symbolic())
    }

    /// Returns true if the binding is made at the first call, not at the start.
    #[must_use]
    pub fn is_lazy(&self, binding: &Binding) -> bool {
        self.lazy && binding.lazy_table && binding.kind == RelocationKind::JumpSlot
    }
}

/// The value that the loader stores in a slot, before load addresses are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The load address of an object plus an address in it.
    Address(At),
    /// As [`Slot::Address`], less the address of the slot itself.
    Distance(At),
    /// A number to which no load address is added.
    Constant(u64),
    /// The result of the resolver, which depends on the processor, plus the addend.
    Resolver {
        /// The resolver.
        resolver: At,
        /// Addend of the result.
        addend: u64,
    },
    /// The number that the loader gave the TLS block of an object.
    TlsModule {
        /// Index of the object.
        object: usize,
    },
    /// The place of a thread-local variable. The loader stores its offset from the thread pointer,
    /// or the negated offset.
    TlsOffset {
        /// Index of the object and offset in its TLS block.
        variable: At,
        /// True for the negated offset.
        negated: bool,
    },
    /// A TLS descriptor (two words) for a thread-local variable.
    TlsDescriptor(Option<At>),
    /// Bytes of another object, copied when that object was relocated.
    Copied {
        /// The source of the bytes.
        from: At,
        /// The number of bytes.
        size: u64,
    },
    /// The slot keeps its value of the file.
    Unchanged,
}

/// An address in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Index of the object.
    pub object: usize,
    /// Address in the object before its load address is added. It wraps around.
    pub address: u64,
}

impl Bindings {
    /// Returns the value that the loader stores for a binding of the object at `index`, or `None`
    /// if that object has no symbol tables.
    #[must_use]
    pub fn slot(&self, index: usize, binding: &Binding) -> Option<Slot> {
        use RelocationKind::{
            Copy, Irelative, PcRelative, Size, TlsBlockOffset, TlsDescriptor, TlsModule, TlsOffset,
            TlsOffsetNegated,
        };
        let symbols = self.objects.get(index)?.symbols.as_ref()?;
        let machine = symbols.machine?;
        let Binding { kind, value, addend, .. } = *binding;
        let address = value.wrapping_add_signed(addend);
        Some(match (kind, binding.definer, binding.definer.object()) {
            (Irelative, ..) => {
                Slot::Resolver { resolver: At { object: index, address }, addend: 0 }
            }
            (Copy, _, Some(object)) => {
                let wanted = symbols.symbol(binding.symbol).map_or(0, |symbol| symbol.size);
                let from = At { object, address: value };
                Slot::Copied { from, size: wanted.min(self.size_of(binding)) }
            }
            (Size(_), ..) => Slot::Constant(self.size_of(binding).wrapping_add_signed(addend)),
            (TlsModule, _, Some(object)) => Slot::TlsModule { object },
            (TlsBlockOffset, _, Some(_)) => {
                Slot::Constant(address.wrapping_sub(machine.block_offset_bias()))
            }
            (TlsOffset | TlsOffsetNegated, _, Some(object)) => {
                let negated = kind == TlsOffsetNegated;
                Slot::TlsOffset { variable: At { object, address }, negated }
            }
            (TlsDescriptor, _, object) => {
                Slot::TlsDescriptor(object.map(|object| At { object, address }))
            }
            (PcRelative(_), Definer::Object(_), Some(object)) => {
                Slot::Distance(At { object, address })
            }
            (
                Copy | PcRelative(_) | TlsModule | TlsBlockOffset | TlsOffset | TlsOffsetNegated,
                ..,
            ) => Slot::Unchanged,
            (_, Definer::Object(_), Some(object)) if binding.symbol_type == SymbolType::Ifunc => {
                Slot::Resolver { resolver: At { object, address: value }, addend: addend as u64 }
            }
            (_, Definer::Object(_), Some(object)) => Slot::Address(At { object, address }),
            _ => Slot::Constant(address),
        })
    }

    /// `st_size` of the definition.
    fn size_of(&self, binding: &Binding) -> u64 {
        let definer = binding.definer.object().and_then(|object| self.objects.get(object));
        let symbols = definer.and_then(|object| object.symbols.as_ref());
        let symbol = symbols.and_then(|symbols| symbols.symbol(binding.definition));
        symbol.map_or(0, |symbol| symbol.size)
    }
}
