//! The value of every kind of relocation, which tests compare with the memory of started programs.

use crate::symbols::machine::KnownMachine;
use crate::symbols::{At, Binding, Bindings, Definer, RelocationKind, Word};

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

/// `TLS_DTV_OFFSET`, which the loader subtracts from an offset in a TLS block.
fn block_offset_bias(machine: KnownMachine) -> u64 {
    match machine {
        // `__tls_get_addr` adds this number again.
        KnownMachine::Ppc64le => 0x8000,
        KnownMachine::Riscv64 => 0x800,
        _ => 0,
    }
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
                Slot::Constant(address.wrapping_sub(block_offset_bias(machine)))
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
            _ => match binding.word() {
                Word::Address(at) => Slot::Address(at),
                Word::Constant(value) => Slot::Constant(value),
                Word::Resolver { resolver, addend } => Slot::Resolver { resolver, addend },
            },
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
