//! ELF bytes → [`ObjectView`], the way a loader reads them: through the program
//! headers and `PT_DYNAMIC`, never through sections.

use bstr::BString;
use thiserror::Error;

/// What a loader, and becalm, needs to know of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// The identification and machine fields of the ELF header.
    pub ident: Ident,
    /// `PT_INTERP`, without its NUL.
    pub interpreter: Option<BString>,
    /// `PT_DYNAMIC`; absent in a static program.
    pub dynamic: Option<Dynamic>,
    /// `NT_GNU_BUILD_ID`.
    pub build_id: Option<Vec<u8>>,
    /// `PT_TLS`.
    pub tls: Option<Tls>,
    /// True where there is at least one `PT_LOAD`.
    pub has_load: bool,
    /// Notes that becalm reads.
    pub notes: Notes,
}

/// The identification and machine fields of an ELF header (gABI, "ELF Header").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// `EI_CLASS`.
    pub class: Class,
    /// `EI_DATA`.
    pub endian: Endian,
    /// `EI_OSABI`.
    pub os_abi: u8,
    /// `EI_ABIVERSION`.
    pub abi_version: u8,
    /// `e_type` (`ET_EXEC` is 2, `ET_DYN` is 3).
    pub e_type: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
}

/// `EI_CLASS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `ELFCLASS32`.
    Elf32,
    /// `ELFCLASS64`.
    Elf64,
}

/// `EI_DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// `ELFDATA2LSB`.
    Little,
    /// `ELFDATA2MSB`.
    Big,
}

/// `PT_DYNAMIC`, read up to `DT_NULL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `DT_NEEDED`, `DT_FILTER` and `DT_AUXILIARY` in the order of the section,
    /// which is the order in which a loader follows them.
    pub dependencies: Vec<Dependency>,
    /// `DT_SONAME`.
    pub soname: Option<BString>,
    /// `DT_RPATH`, present even where `DT_RUNPATH` makes the loader ignore it.
    pub rpath: Option<BString>,
    /// `DT_RUNPATH`.
    pub runpath: Option<BString>,
    /// `DT_AUDIT`.
    pub audit: Option<BString>,
    /// `DT_DEPAUDIT`.
    pub depaudit: Option<BString>,
    /// `DT_FLAGS` (`DF_*`).
    pub flags: u64,
    /// `DT_FLAGS_1` (`DF_1_*`).
    pub flags_1: u64,
}

/// One dependency entry of the dynamic section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Which tag it came from.
    pub kind: DependencyKind,
    /// The string, unexpanded.
    pub name: BString,
}

/// The tag of a dependency entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// `DT_NEEDED`.
    Needed,
    /// `DT_FILTER`: must be there.
    Filter,
    /// `DT_AUXILIARY`: used where it is there.
    Auxiliary,
}

/// `PT_TLS`: sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `p_memsz`.
    pub size: u64,
    /// `p_align`.
    pub align: u64,
}

/// Notes that becalm reads, as raw descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The resolution note: owner `NixOS`, type 0x63a86cb6.
    pub resolution: Option<Vec<u8>>,
    /// `.note.dlopen`: owner `FDO`, type 0x407c0c0a, JSON text, one a note.
    pub dlopen: Vec<BString>,
}

/// `DF_STATIC_TLS` of `DT_FLAGS`.
pub const DF_STATIC_TLS: u64 = 0x10;
/// `DF_1_NODEFLIB` of `DT_FLAGS_1`: no loader cache entry of a system directory,
/// no system directory.
pub const DF_1_NODEFLIB: u64 = 0x800;
/// `DF_1_PIE` of `DT_FLAGS_1`: a position-independent executable, not a library.
pub const DF_1_PIE: u64 = 0x0800_0000;

/// Why bytes are no object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElfError {
    /// The file does not start with `\x7fELF`.
    #[error("not an ELF file")]
    NotElf,
    /// A structure lies outside the file or contradicts itself.
    #[error("malformed ELF file: {0}")]
    Malformed(&'static str),
    /// The file could not be read.
    #[error("cannot be read (errno {0})")]
    Unreadable(i32),
}
