//! The kinds of symbols and relocations, and the binding of one relocation.

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
    /// `symbol_name` and `symbol_version` of [`super::ObjectSymbols`] return its name and version.
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
