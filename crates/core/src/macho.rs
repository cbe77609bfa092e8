//! Recognises Mach-O files and parses the load commands that determine the number of paths dyld may
//! try.
//!
//! becalm models ELF loaders, not dyld. Packages for both systems have the same cost on macOS, where
//! `@rpath` is the counterpart of a run path.

use bstr::{BStr, BString, ByteSlice};
use object::Endianness;
use object::macho::{self, CpuSubtype, CpuType, FatArch32, FatArch64, MachHeader32, MachHeader64};
use object::read::ReadRef;
use object::read::macho::{FatArch, LoadCommandData, LoadCommandVariant, MachHeader, MachOFatFile};
use thiserror::Error;

/// The first version of a Java class file, which has the magic bytes of a fat header and its version in
/// place of the count (JVM specification, § 4.1; 45 is Java 1.1).
const JAVA_CLASS: u32 = 45;

/// The limit on the load commands of one slice, in bytes. Those of the largest programs have some
/// hundred kilobytes.
const COMMANDS_MAX: u32 = 4 << 20;

/// A Mach-O file: one slice, or those of a universal ("fat") file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachO {
    /// The slices in file order. Members of a fat file that are not a Mach-O image, such as static
    /// archives, are left out.
    pub slices: Vec<Slice>,
}

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

/// The prefix of an install name, which determines the paths of dyld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameClass {
    /// `/…`: this path.
    Absolute,
    /// `@rpath/…`: under each run path in turn.
    Rpath,
    /// `@executable_path/…`: relative to the program's directory.
    ExecutablePath,
    /// `@loader_path/…`: relative to the directory of the image with the load command.
    LoaderPath,
    /// Anything else: relative to the current directory.
    Relative,
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

impl NameClass {
    /// Returns the class of an install name (dyld(1), "Dynamic library loading").
    #[must_use]
    pub fn of(name: &BStr) -> Self {
        if name.starts_with(b"/") {
            Self::Absolute
        } else if name.starts_with(b"@rpath/") {
            Self::Rpath
        } else if name.starts_with(b"@executable_path/") {
            Self::ExecutablePath
        } else if name.starts_with(b"@loader_path/") {
            Self::LoaderPath
        } else {
            Self::Relative
        }
    }
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
        self.dylibs.iter().fold(0, |sum: usize, dylib| {
            sum.saturating_add(match NameClass::of(dylib.as_bstr()) {
                NameClass::Rpath => self.rpaths.len(),
                _ => 1,
            })
        })
    }
}

/// Returns true if the first 8 bytes of a file are those of a thin or fat Mach-O file. A Java class
/// file has the same magic number and is recognised by its version.
#[must_use]
pub fn is_macho(head: &[u8]) -> bool {
    Format::of(head).is_some()
}

/// Parses the headers and load commands of a thin or fat Mach-O file.
///
/// # Errors
/// Returns [`MachOError::NotMachO`] if the file lacks the magic bytes. Returns
/// [`MachOError::Malformed`] if a header, a slice or a load command is out of bounds, if a name is
/// outside its command, or if the commands of a slice exceed 4 MiB.
pub fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<MachO, MachOError> {
    let head = data.read_bytes_at(0, 8).unwrap_or_default();
    let slices = match Format::of(head).ok_or(MachOError::NotMachO)? {
        Format::Thin32 | Format::Thin64 => {
            let len = data.len().map_err(|()| MachOError::Malformed("its length is unknown"))?;
            slice_at(data, 0, len)?.into_iter().collect()
        }
        Format::Fat32 => fat_slices::<FatArch32, R>(data)?,
        Format::Fat64 => fat_slices::<FatArch64, R>(data)?,
    };
    Ok(MachO { slices })
}

#[derive(Clone, Copy)]
enum Format {
    Thin32,
    Thin64,
    Fat32,
    Fat64,
}

impl Format {
    fn of(head: &[u8]) -> Option<Self> {
        let magic = u32::from_be_bytes(*head.first_chunk()?);
        let count = u32::from_be_bytes(*head.get(4..)?.first_chunk()?);
        match magic {
            macho::MH_MAGIC | macho::MH_CIGAM => Some(Self::Thin32),
            macho::MH_MAGIC_64 | macho::MH_CIGAM_64 => Some(Self::Thin64),
            macho::FAT_MAGIC if count < JAVA_CLASS => Some(Self::Fat32),
            macho::FAT_MAGIC_64 if count < JAVA_CLASS => Some(Self::Fat64),
            _ => None,
        }
    }
}

fn fat_slices<'data, Fat, R>(data: R) -> Result<Vec<Slice>, MachOError>
where
    Fat: FatArch + 'data,
    R: ReadRef<'data>,
{
    let file = MachOFatFile::<Fat>::parse(data)
        .map_err(|_| MachOError::Malformed("its table of slices is outside the file"))?;
    let file_len = data.len().map_err(|()| MachOError::Malformed("its length is unknown"))?;
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
    match Format::of(head) {
        Some(Format::Thin32) => slice::<MachHeader32<Endianness>, R>(data, offset, len).map(Some),
        Some(Format::Thin64) => slice::<MachHeader64<Endianness>, R>(data, offset, len).map(Some),
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
    let malformed = MachOError::Malformed("a load command does not fit");
    let mut commands = header.load_commands(endian, data, offset).map_err(|_| malformed)?;
    let cpu = cpu_name(header.cputype(endian), header.cpusubtype(endian));
    let mut slice = Slice { cpu, dylibs: Vec::new(), rpaths: Vec::new() };
    while let Some(command) = commands.next().map_err(|_| malformed)? {
        take(&mut slice, &command, endian).map_err(|_| malformed)?;
    }
    Ok(slice)
}

/// Adds one load command to a slice.
fn take(
    slice: &mut Slice,
    command: &LoadCommandData<'_, Endianness>,
    endian: Endianness,
) -> object::read::Result<()> {
    match command.variant()? {
        LoadCommandVariant::Dylib(dylib) => {
            slice.dylibs.push(BString::from(command.string(endian, dylib.dylib.name)?));
        }
        LoadCommandVariant::Rpath(rpath) => {
            slice.rpaths.push(BString::from(command.string(endian, rpath.path)?));
        }
        _ => {}
    }
    Ok(())
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
