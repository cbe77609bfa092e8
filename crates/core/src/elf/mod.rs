//! ELF bytes → [`ObjectView`], the way a loader reads them: through the program
//! headers and `PT_DYNAMIC`, never through sections.
//!
//! [`parse`] is the way in; [`ident`] reads the header alone. The descriptors in
//! [`Notes`] are decoded by [`resolution_note`] and [`dlopen_note`].

mod dynamic;
mod image;
mod machine;
mod notes;
mod parse;
mod source;

pub mod dlopen_note;
pub mod resolution_note;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use bstr::{BStr, BString, ByteSlice};
use thiserror::Error;

pub use dlopen_note::{DlopenEntry, dlopen_entries};
pub use image::{Image, Words};
pub use machine::machine_name;
pub use parse::{Head, head, ident, parse};

/// What a loader, and becalm, needs to know of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// The identification and machine fields of the ELF header.
    pub ident: Ident,
    /// True where there is a `PT_LOAD`; a loader refuses an object without one.
    pub has_load: bool,
    /// `PT_INTERP`, without its NUL.
    pub interpreter: Option<BString>,
    /// Why the kernel refuses to start the object by its `PT_INTERP`, if it does. Loaders
    /// never read that segment of a library.
    pub interpreter_fault: Option<&'static str>,
    /// `PT_DYNAMIC`; absent in a static program.
    pub dynamic: Option<Dynamic>,
    /// `NT_GNU_BUILD_ID`.
    pub build_id: Option<Vec<u8>>,
    /// `PT_TLS`.
    pub tls: Option<Tls>,
    /// Notes that becalm reads.
    pub notes: Notes,
}

impl ObjectView {
    /// True where the kernel alone starts it: a program that names no interpreter
    /// (`ET_EXEC`, a static PIE, or a position-independent image without
    /// `PT_DYNAMIC`). A loader and a library are not static: they have a
    /// `PT_DYNAMIC` that does not claim to be a program.
    #[must_use]
    pub fn is_static(&self) -> bool {
        let starts_alone = match self.ident.e_type {
            ET_EXEC => true,
            ET_DYN => self.has_load && (self.dynamic.is_none() || self.has_flag_1(DF_1_PIE)),
            _ => false,
        };
        starts_alone && self.interpreter.is_none() && self.interpreter_fault.is_none()
    }

    /// True where it can be started: it names an interpreter, is `ET_EXEC`, or says
    /// `DF_1_PIE`. A library with an interpreter (`libc.so.6`) counts.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.interpreter.is_some() || self.ident.e_type == ET_EXEC || self.has_flag_1(DF_1_PIE)
    }

    /// True for an object that was linked as a library, whether or not it names an
    /// interpreter (`libc.so.6` does): position-independent, and neither `DF_1_PIE` nor
    /// `DT_DEBUG` marks it as a program.
    #[must_use]
    pub fn is_library(&self) -> bool {
        let marked = self.dynamic.as_ref().is_none_or(|dynamic| dynamic.has_debug);
        self.ident.e_type == ET_DYN && !marked && !self.has_flag_1(DF_1_PIE)
    }

    /// The `DT_NEEDED` strings in order, unexpanded; filters are left out.
    pub fn needed(&self) -> impl Iterator<Item = &BStr> {
        self.dynamic
            .iter()
            .flat_map(|dynamic| &dynamic.dependencies)
            .filter(|dependency| dependency.kind == DependencyKind::Needed)
            .map(|dependency| dependency.name.as_bstr())
    }

    fn has_flag_1(&self, flag: u64) -> bool {
        self.dynamic.as_ref().is_some_and(|dynamic| dynamic.flags_1 & flag != 0)
    }
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
///
/// Of a tag that may stand once and stands twice, the last counts, as in glibc
/// 2.36 `elf/get-dynamic-info.h` `elf_get_dynamic_info` and musl `decode_vec`.
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
    /// True with a `DT_DEBUG`: link editors write it into programs only.
    pub has_debug: bool,
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

/// `ET_EXEC` of `e_type`: a program linked to fixed addresses.
pub const ET_EXEC: u16 = 2;
/// `ET_DYN` of `e_type`: a library, or a position-independent program.
pub const ET_DYN: u16 = 3;
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
