//! The result of [`super::bind`].

pub use super::symbol_type::{Binding, Definer, Relative, RelocationKind, SymbolClass, SymbolType};
use std::sync::Arc;

use super::object::ObjectSymbols;
use super::versions::MissingVersionReport;

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
    pub missing_versions: Vec<MissingVersionReport>,
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

/// The value that the loader stores in a word for a symbol, before load addresses are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The load address of an object plus an address in it.
    Address(At),
    /// A number to which no load address is added.
    Constant(u64),
    /// The result of the resolver, which depends on the processor, plus the addend.
    Resolver {
        /// The resolver.
        resolver: At,
        /// Addend of the result.
        addend: u64,
    },
}

/// An address in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Index of the object.
    pub object: usize,
    /// Address in the object before its load address is added. It wraps around.
    pub address: u64,
}

impl Binding {
    /// Returns the value that the loader stores for a `GLOB_DAT`, `JUMP_SLOT` or absolute relocation.
    #[must_use]
    pub fn word(&self) -> Word {
        let Self { value, addend, .. } = *self;
        let address = value.wrapping_add_signed(addend);
        match (self.definer, self.definer.object()) {
            (Definer::Object(_), Some(object)) if self.symbol_type == SymbolType::Ifunc => {
                Word::Resolver { resolver: At { object, address: value }, addend: addend as u64 }
            }
            (Definer::Object(_), Some(object)) => Word::Address(At { object, address }),
            _ => Word::Constant(address),
        }
    }
}
