//! Parses ELF files as a loader does: through the program headers and `PT_DYNAMIC`, never through
//! sections.
//!
//! [`parse`] makes an [`ObjectView`] from the bytes of a file, and [`ident`] reads the header only.
//! [`resolution_note`] and [`dlopen_sonames`] decode the descriptors in [`Notes`].

mod dynamic;
mod header;
mod image;
mod machine;
mod notes;
mod numbers;
mod parse;
mod segment;
mod source;
mod start;

pub mod resolution_note;

#[cfg(test)]
pub(crate) mod tests;

use bstr::{BStr, BString, ByteSlice};
use object::{Endian as _, Endianness};
use thiserror::Error;

pub use header::ident;
pub use image::Image;
pub(crate) use image::Tags;
pub use machine::machine_name;
pub use notes::{dlopen_sonames, notes};
pub(crate) use numbers::{Reader, Writer};
pub use parse::{parse, start};
pub(crate) use segment::Segment;

/// The parts of one ELF file that a loader or becalm uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectView {
    /// The identification and machine fields of the ELF header.
    pub ident: Ident,
    /// True if there is a `PT_LOAD`. A loader refuses an object without one.
    pub has_load: bool,
    /// `PT_INTERP`, without its NUL.
    pub interpreter: Option<BString>,
    /// The reason why the kernel rejects the `PT_INTERP`, if it does. A loader does not read the
    /// `PT_INTERP` of a library.
    pub interpreter_fault: Option<&'static str>,
    /// `PT_DYNAMIC`. A static program has none.
    pub dynamic: Option<Dynamic>,
    /// `NT_GNU_BUILD_ID`.
    pub build_id: Option<Vec<u8>>,
    /// `PT_TLS`.
    pub tls: Option<Tls>,
    /// True if the last `PT_GNU_STACK` is executable. `None` without one: the machine decides.
    pub exec_stack: Option<bool>,
    /// The notes that becalm reads.
    pub notes: Notes,
}

impl ObjectView {
    /// Makes an object of which only the header is known.
    #[must_use]
    pub fn new(ident: Ident) -> Self {
        Self { ident, ..Self::default() }
    }

    /// Returns true for an object that can be started: it has an interpreter, is `ET_EXEC`, or has
    /// `DF_1_PIE`. A library with an interpreter (`libc.so.6`) counts.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.interpreter.is_some() || self.ident.e_type == ET_EXEC || self.has_flag_1(DF_1_PIE)
    }

    /// Returns true for an object that was linked as a library, even if it has an interpreter like
    /// `libc.so.6`. It is position-independent and has neither `DF_1_PIE` nor `DT_DEBUG`.
    #[must_use]
    pub fn is_library(&self) -> bool {
        let marked = self.dynamic.as_ref().is_none_or(|dynamic| dynamic.has_debug);
        self.ident.e_type == ET_DYN && !marked && !self.has_flag_1(DF_1_PIE)
    }

    /// Returns `DT_SONAME`.
    #[must_use]
    pub fn soname(&self) -> Option<&BStr> {
        Some(self.dynamic.as_ref()?.soname.as_ref()?.as_bstr())
    }

    /// Returns [`Dynamic::dependencies`].
    pub fn dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dynamic.iter().flat_map(|dynamic| &dynamic.dependencies)
    }

    /// Returns the names that the object may look up: its dependencies, then the sonames of its
    /// `.note.dlopen`.
    pub(crate) fn lookups(&self) -> impl Iterator<Item = BString> {
        let at_run_time = dlopen_sonames(&self.notes.dlopen).into_iter().flatten();
        self.dependencies().map(|it| it.name.clone()).chain(at_run_time.map(BString::from))
    }

    /// Returns the `DT_NEEDED` strings in order, their DSTs not expanded. `DT_FILTER` and
    /// `DT_AUXILIARY` are left out.
    pub fn needed(&self) -> impl Iterator<Item = &BStr> {
        self.dependencies()
            .filter(|dependency| dependency.kind == DependencyKind::Needed)
            .map(|dependency| dependency.name.as_bstr())
    }

    /// Returns true if the object needs an executable stack. Without `PT_GNU_STACK` it does on the
    /// machines that began without that header (glibc `sysdeps/*/stackinfo.h`).
    #[must_use]
    pub fn needs_exec_stack(&self) -> bool {
        // All others that becalm knows: AArch64, RISC-V, LoongArch, ARC, C-SKY, PowerPC 64.
        const WITHOUT: [u16; 6] = [21, 183, 195, 243, 252, 258];
        self.exec_stack.unwrap_or(!WITHOUT.contains(&self.ident.machine))
    }

    /// Returns true if a musl loader starts or loads the object for certain: by the name of its
    /// interpreter, or of the C library that it needs. A library that needs `libc.so` may be one of
    /// musl too.
    #[must_use]
    pub fn is_for_musl(&self) -> bool {
        self.interpreter.as_ref().is_some_and(|path| path.contains_str("/ld-musl-"))
            || self.needed().any(|name| name.starts_with_str("libc.musl-"))
    }

    /// Returns true for an object with [`DF_1_NODEFLIB`].
    #[must_use]
    pub fn is_nodeflib(&self) -> bool {
        self.has_flag_1(DF_1_NODEFLIB)
    }

    fn has_flag_1(&self, flag: u64) -> bool {
        self.dynamic.as_ref().is_some_and(|dynamic| dynamic.flags_1 & flag != 0)
    }
}

/// The identification and machine fields of an ELF header (gABI, "ELF Header").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// `ELFCLASS32`.
    Elf32 = 1,
    /// `ELFCLASS64`.
    #[default]
    Elf64 = 2,
}

impl Class {
    /// Returns the class with a number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        [Self::Elf32, Self::Elf64].into_iter().find(|class| *class as u8 == number)
    }
}

/// `EI_DATA`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endian {
    /// `ELFDATA2LSB`.
    #[default]
    Little = 1,
    /// `ELFDATA2MSB`.
    Big = 2,
}

impl Endian {
    /// Returns the byte order with a number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        [Self::Little, Self::Big].into_iter().find(|endian| *endian as u8 == number)
    }

    /// Reads the 16-bit number at `at`; `None` if the bytes end before.
    #[must_use]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        Some(Endianness::from(self).read_u16(*bytes.get(at..)?.first_chunk()?))
    }

    /// Reads the 32-bit number at `at`; `None` if the bytes end before.
    #[must_use]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(Endianness::from(self).read_u32(*bytes.get(at..)?.first_chunk()?))
    }

    /// Reads the 64-bit number at `at`; `None` if the bytes end before.
    #[must_use]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        Some(Endianness::from(self).read_u64(*bytes.get(at..)?.first_chunk()?))
    }
}

/// The type of `object`, whose [`object::Endian`] also writes numbers.
impl From<Endian> for Endianness {
    fn from(endian: Endian) -> Self {
        match endian {
            Endian::Little => Self::Little,
            Endian::Big => Self::Big,
        }
    }
}

/// The entries of `PT_DYNAMIC` up to `DT_NULL`.
///
/// If a tag occurs twice, the last entry counts, as in `elf_get_dynamic_info` (glibc 2.36
/// `elf/get-dynamic-info.h`) and in musl's `decode_vec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `DT_NEEDED`, `DT_FILTER` and `DT_AUXILIARY` in the order of the section. A loader follows
    /// them in this order.
    pub dependencies: Vec<Dependency>,
    /// `DT_SONAME`.
    pub soname: Option<BString>,
    /// `DT_RPATH`, even if the loader ignores it because of `DT_RUNPATH`.
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
    /// True if there is a `DT_DEBUG`, which link editors write into programs only.
    pub has_debug: bool,
}

impl Dynamic {
    /// Returns the run path that counts: an object with `DT_RUNPATH` has no `DT_RPATH`
    /// (`_dl_init_paths`, `_dl_map_object`).
    #[must_use]
    pub fn run_path(&self) -> Option<&BString> {
        self.runpath.as_ref().or(self.rpath.as_ref())
    }

    /// Returns the `DT_RPATH` that counts: `elf_get_dynamic_info` clears that of an object with
    /// `DT_RUNPATH`.
    #[must_use]
    pub fn rpath_that_counts(&self) -> Option<&BString> {
        self.rpath.as_ref().filter(|_| self.runpath.is_none())
    }
}

/// One dependency entry of the dynamic section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The tag.
    pub kind: DependencyKind,
    /// The string, its DSTs not expanded.
    pub name: BString,
}

/// The tag of a dependency entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// `DT_NEEDED`.
    Needed,
    /// `DT_FILTER`. The loader fails if the object is missing.
    Filter,
    /// `DT_AUXILIARY`. The loader continues if the object is missing.
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

/// The descriptors of the notes that becalm reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The resolution note: owner `NixOS`, type 0x63a86cb6.
    pub resolution: Option<Vec<u8>>,
    /// `.note.dlopen`: owner `FDO`, type 0x407c0c0a. The JSON text of each note.
    pub dlopen: Vec<BString>,
}

/// `ET_EXEC` as a plain number: a program linked to fixed addresses.
pub const ET_EXEC: u16 = object::elf::ET_EXEC.0;
/// `ET_DYN` as a plain number: a library, or a position-independent program.
pub const ET_DYN: u16 = object::elf::ET_DYN.0;
/// `DF_STATIC_TLS` of `DT_FLAGS`.
pub const DF_STATIC_TLS: u64 = 0x10;
/// `DF_1_NODEFLIB` of `DT_FLAGS_1`: the loader searches no system directory for this object and
/// takes no answer in one from the loader cache.
pub const DF_1_NODEFLIB: u64 = 0x800;
/// `DF_1_PIE` of `DT_FLAGS_1`: a position-independent program.
pub const DF_1_PIE: u64 = 0x0800_0000;

/// Returned if the bytes of a file are not a valid ELF file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElfError {
    /// The file does not start with `\x7fELF`.
    #[error("not an ELF file")]
    NotElf,
    /// A structure is outside the file or invalid.
    #[error("malformed ELF file: {0}")]
    Malformed(&'static str),
    /// The file could not be read.
    #[error("cannot be read (errno {0})")]
    Unreadable(i32),
}
