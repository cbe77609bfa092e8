//! The result of [`super::bind`], with the kinds of symbols and relocations.

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

/// One relocation and the definition it binds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Address of the slot in its object, before the load address is added (`r_offset`).
    pub offset: u64,
    /// The kind of value that the relocation stores.
    pub kind: RelocationKind,
    /// True for a relocation of `DT_JMPREL`, which the loader postpones in a lazily bound object.
    pub lazy_table: bool,
    /// Index of the referenced symbol in the object's own table, or 0 without a symbol.
    /// [`ObjectSymbols::symbol_name`] and [`ObjectSymbols::symbol_version`] return its name and
    /// version.
    pub symbol: u32,
    /// The object that defines the symbol.
    pub definer: Definer,
    /// Index of the definition in the symbol table of the definer, or 0 without a definition.
    pub definition: u32,
    /// `st_value` of the definition before the load address is added, or 0 without a definition. On
    /// ppc64 the local entry offset is added for a call within one object.
    pub value: u64,
    /// Addend of the value. It is 0 if the machine ignores the addend of this type.
    pub addend: i64,
    /// Type of the definition, or of the reference if there is no definition.
    pub symbol_type: SymbolType,
    /// True if the definition is `STB_GNU_UNIQUE`.
    pub unique: bool,
}

/// The object that defines a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Definer {
    /// The object of this index.
    Object(u32),
    /// The object of this index, by an `SHN_ABS` symbol: the load address is not added (glibc).
    Absolute(u32),
    /// No object defines it, and the reference is weak. The slot gets the addend alone.
    Undefined,
    /// No object defines it, and the reference is strong. The start ends with an error.
    Missing,
}

impl Definer {
    /// Returns the index of the defining object.
    #[must_use]
    pub fn object(self) -> Option<usize> {
        match self {
            Definer::Object(object) | Definer::Absolute(object) => Some(object as usize),
            Definer::Undefined | Definer::Missing => None,
        }
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

/// The kinds of values that relocations store, across machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelocationKind {
    /// The address of a datum or function (`GLOB_DAT`).
    GlobDat,
    /// The address of a function to call (`JUMP_SLOT`).
    JumpSlot,
    /// Address plus addend, in this many bytes.
    Absolute(u8),
    /// Address plus addend minus the address of the slot, in this many bytes.
    PcRelative(u8),
    /// `st_size` of the definition plus addend, in this many bytes.
    Size(u8),
    /// The definition's bytes, copied into the program.
    Copy,
    /// The result of the resolver at load address plus addend.
    Irelative,
    /// The TLS module number of the definer.
    TlsModule,
    /// The offset in the definer's TLS block.
    TlsBlockOffset,
    /// The offset from the thread pointer, which makes the definer's TLS static.
    TlsOffset,
    /// The offset from the thread pointer, negated (`R_386_TLS_TPOFF32`).
    TlsOffsetNegated,
    /// A TLS descriptor: two words, a function and its argument.
    TlsDescriptor,
    /// An unknown type, by its number. A loader that does not know it ends the start.
    Other(u32),
}

impl RelocationKind {
    /// Returns true for a relocation of thread-local storage.
    pub(super) fn is_tls(self) -> bool {
        use RelocationKind::{
            TlsBlockOffset, TlsDescriptor, TlsModule, TlsOffset, TlsOffsetNegated,
        };
        matches!(self, TlsModule | TlsBlockOffset | TlsOffset | TlsOffsetNegated | TlsDescriptor)
    }

    /// Returns true for the binding of a symbol: neither TLS, copy nor `IRELATIVE`.
    pub(super) fn is_symbolic(self) -> bool {
        !self.is_tls() && !matches!(self, Self::Copy | Self::Irelative)
    }

    /// Returns the name used in output: `glob_dat`, `jump_slot`, `absolute`, …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GlobDat => "glob_dat",
            Self::JumpSlot => "jump_slot",
            Self::Absolute(_) => "absolute",
            Self::PcRelative(_) => "pc_relative",
            Self::Size(_) => "size",
            Self::Copy => "copy",
            Self::Irelative => "irelative",
            Self::TlsModule => "tls_module",
            Self::TlsBlockOffset => "tls_block_offset",
            Self::TlsOffset => "tls_offset",
            Self::TlsOffsetNegated => "tls_offset_negated",
            Self::TlsDescriptor => "tls_descriptor",
            Self::Other(_) => "other",
        }
    }
}

/// The symbols that a relocation may bind to (glibc `elf_machine_type_class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolClass {
    /// Any symbol.
    Any,
    /// All but undefined symbols with a value, which are PLT entries of a program
    /// (`ELF_RTYPE_CLASS_PLT`).
    Plt,
    /// All but symbols of the program itself (`ELF_RTYPE_CLASS_COPY`).
    Copy,
}

/// `STT_*`, as far as a loader distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolType {
    /// `STT_NOTYPE`.
    NoType,
    /// `STT_OBJECT` or `STT_COMMON`.
    Object,
    /// `STT_FUNC`.
    Function,
    /// `STT_TLS`.
    Tls,
    /// `STT_GNU_IFUNC`.
    Ifunc,
    /// Another type, which no lookup finds.
    Other,
}

impl SymbolType {
    /// Returns the name used in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoType => "none",
            Self::Object => "object",
            Self::Function => "function",
            Self::Tls => "tls",
            Self::Ifunc => "ifunc",
            Self::Other => "other",
        }
    }
}

/// A relative relocation. The slot gets the load address plus a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Address of the slot, before the load address is added.
    pub offset: u64,
    /// Address that the slot points to, before the load address is added. For `REL` and `RELR`
    /// relocations it is the slot's value in the file.
    pub addend: u64,
}
