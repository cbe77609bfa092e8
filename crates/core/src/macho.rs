//! Recognises Mach-O files and parses the load commands that determine the number of paths dyld may
//! try.
//!
//! becalm models ELF loaders, not dyld. Packages for both systems have the same cost on macOS, where
//! `@rpath` is the counterpart of a run path.

use bstr::BString;
use object::macho::{self, CpuSubtype, CpuType, FatArch32, FatArch64, MachHeader32, MachHeader64};
use object::read::ReadRef;
use object::read::macho::{FatArch, LoadCommandVariant, MachHeader, MachOFatFile};
use object::{Endianness, FileKind};
use thiserror::Error;

/// The first version of a Java class file, which has the magic bytes of a fat header and its version in
/// place of the count (JVM specification, § 4.1; 45 is Java 1.1).
const JAVA_CLASS: u32 = 45;

/// The limit on the load commands of one slice, in bytes. Those of the largest programs have some
/// hundred kilobytes.
const COMMANDS_MAX: u32 = 4 << 20;

/// The image for one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The name of the CPU as in `lipo`, or `unknown`.
    pub cpu: &'static str,
    /// The install names of the dylibs that dyld loads with it, in order, not expanded.
    pub dylibs: Vec<BString>,
    /// The `LC_RPATH`s in order, not expanded.
    pub rpaths: Vec<BString>,
}

/// Returned if the bytes of a file are not a valid Mach-O file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MachOError {
    /// The file lacks the magic bytes of a thin or fat Mach-O file.
    #[error("not a Mach-O file")]
    NotMachO,
    /// A structure is outside the file or invalid.
    #[error("malformed Mach-O file: {0}")]
    Malformed(&'static str),
}

impl Slice {
    /// Returns the number of candidate paths that dyld may try for this image's dylibs: one for each
    /// run path if the name is `@rpath/…`, and one for any other name.
    ///
    /// Only the image's own run paths count. dyld also tries those of the images that loaded it, up to
    /// the program, which are not in this file. A library may therefore cost more, and one without an
    /// `LC_RPATH` counts none for `@rpath/…`. Fallback paths and `DYLD_*` variables are left out.
    #[must_use]
    pub fn dyld_candidates(&self) -> usize {
        let candidates = self.dylibs.iter().map(|dylib| match dylib.starts_with(b"@rpath/") {
            true => self.rpaths.len(),
            false => 1,
        });
        candidates.fold(0, usize::saturating_add)
    }
}

/// Returns true if the first 8 bytes of a file are those of a thin or fat Mach-O file. A Java class
/// file has the same magic number and is recognised by its version.
#[must_use]
pub fn is_macho(head: &[u8]) -> bool {
    kind_of(head).is_some()
}

/// Parses the headers and load commands of a thin or universal ("fat") Mach-O file. Returns the slices in
/// file order. Members of a fat file that are not a Mach-O image, such as static archives, are left out.
///
/// # Errors
/// Returns [`MachOError::NotMachO`] if the file lacks the magic bytes. Returns
/// [`MachOError::Malformed`] if a header, a slice or a load command is out of bounds, if a name is
/// outside its command, or if the commands of a slice exceed 4 MiB.
pub fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Vec<Slice>, MachOError> {
    let head = data.read_bytes_at(0, 8).unwrap_or_default();
    let kind = kind_of(head).ok_or(MachOError::NotMachO)?;
    let len = data.len().map_err(|()| MachOError::Malformed("its length is unknown"));
    match kind {
        FileKind::MachOFat32 => fat_slices::<FatArch32, R>(data, len?),
        FileKind::MachOFat64 => fat_slices::<FatArch64, R>(data, len?),
        _ => Ok(slice_at(data, 0, len?)?.into_iter().collect()),
    }
}

/// Returns the kind of a Mach-O file by its first 8 bytes.
fn kind_of(head: &[u8]) -> Option<FileKind> {
    let magic = u32::from_be_bytes(*head.first_chunk()?);
    let count = u32::from_be_bytes(*head.get(4..)?.first_chunk()?);
    match magic {
        macho::MH_MAGIC | macho::MH_CIGAM => Some(FileKind::MachO32),
        macho::MH_MAGIC_64 | macho::MH_CIGAM_64 => Some(FileKind::MachO64),
        macho::FAT_MAGIC if count < JAVA_CLASS => Some(FileKind::MachOFat32),
        macho::FAT_MAGIC_64 if count < JAVA_CLASS => Some(FileKind::MachOFat64),
        _ => None,
    }
}

fn fat_slices<'data, Fat, R>(data: R, file_len: u64) -> Result<Vec<Slice>, MachOError>
where
    Fat: FatArch + 'data,
    R: ReadRef<'data>,
{
    let file = MachOFatFile::<Fat>::parse(data)
        .map_err(|_| MachOError::Malformed("its table of slices is outside the file"))?;
    let mut slices = Vec::new();
    for arch in file.arches() {
        let (offset, len) = arch.file_range();
        if offset.checked_add(len).is_none_or(|end| end > file_len) {
            return Err(MachOError::Malformed("a slice is outside the file"));
        }
        slices.extend(slice_at(data, offset, len)?);
    }
    Ok(slices)
}

/// Parses the image at `offset`. Returns `None` if it is not a Mach-O image.
fn slice_at<'data, R: ReadRef<'data>>(
    data: R,
    offset: u64,
    len: u64,
) -> Result<Option<Slice>, MachOError> {
    let head = data.read_bytes_at(offset, len.min(8)).unwrap_or_default();
    match kind_of(head) {
        Some(FileKind::MachO32) => {
            slice::<MachHeader32<Endianness>, R>(data, offset, len).map(Some)
        }
        Some(FileKind::MachO64) => {
            slice::<MachHeader64<Endianness>, R>(data, offset, len).map(Some)
        }
        _ => Ok(None),
    }
}

fn slice<'data, Mach, R>(data: R, offset: u64, len: u64) -> Result<Slice, MachOError>
where
    Mach: MachHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let truncated = MachOError::Malformed("its header is truncated");
    let room = len.checked_sub(size_of::<Mach>() as u64).ok_or(truncated)?;
    let header = Mach::parse(data, offset).map_err(|_| truncated)?;
    let endian = header.endian().map_err(|_| truncated)?;
    let size = header.sizeofcmds(endian);
    if size > COMMANDS_MAX || u64::from(size) > room {
        return Err(MachOError::Malformed("its load commands are too long"));
    }
    let cpu = cpu_name(header.cputype(endian), header.cpusubtype(endian));
    let mut slice = Slice { cpu, dylibs: Vec::new(), rpaths: Vec::new() };
    let mut take_commands = || -> object::read::Result<()> {
        let mut commands = header.load_commands(endian, data, offset)?;
        while let Some(command) = commands.next()? {
            let (list, name) = match command.variant()? {
                LoadCommandVariant::Dylib(dylib) => (&mut slice.dylibs, dylib.dylib.name),
                LoadCommandVariant::Rpath(rpath) => (&mut slice.rpaths, rpath.path),
                _ => continue,
            };
            list.push(BString::from(command.string(endian, name)?));
        }
        Ok(())
    };
    take_commands().map_err(|_| MachOError::Malformed("a load command does not fit"))?;
    Ok(slice)
}

/// Returns the name of a CPU as in `lipo`. The upper byte of a subtype has feature bits.
fn cpu_name(cpu: CpuType, subtype: CpuSubtype) -> &'static str {
    match (cpu, subtype.0 & 0x00ff_ffff) {
        (macho::CPU_TYPE_X86, _) => "i386",
        (macho::CPU_TYPE_X86_64, 8) => "x86_64h",
        (macho::CPU_TYPE_X86_64, _) => "x86_64",
        (macho::CPU_TYPE_ARM64, 2) => "arm64e",
        (macho::CPU_TYPE_ARM64, _) => "arm64",
        (macho::CPU_TYPE_ARM64_32, _) => "arm64_32",
        (macho::CPU_TYPE_ARM, 6) => "armv6",
        (macho::CPU_TYPE_ARM, 9) => "armv7",
        (macho::CPU_TYPE_ARM, 11) => "armv7s",
        (macho::CPU_TYPE_ARM, 12) => "armv7k",
        (macho::CPU_TYPE_ARM, _) => "arm",
        (macho::CPU_TYPE_POWERPC, _) => "ppc",
        (macho::CPU_TYPE_POWERPC64, _) => "ppc64",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
