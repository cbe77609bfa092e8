//! The program header table.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PF_W, PF_X, PN_XNUM, ProgramType};
use object::pod;
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};

use super::source::Source;
use super::{Class, ElfError, Ident};

/// One program header, widened to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: ProgramType,
    pub(crate) is_executable: bool,
    pub(crate) is_writable: bool,
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) filesz: u64,
    pub(crate) memsz: u64,
    pub(crate) align: u64,
}

/// Parses the table of an object with this header.
pub(super) fn segments<'data, R: ReadRef<'data>>(
    source: &Source<'data, R>,
    ident: &Ident,
) -> Result<Vec<Segment>, ElfError> {
    match ident.class {
        Class::Elf32 => table::<FileHeader32<Endianness>, R>(source, ident.endian.into()),
        Class::Elf64 => table::<FileHeader64<Endianness>, R>(source, ident.endian.into()),
    }
}

fn table<'data, Elf, R>(
    source: &Source<'data, R>,
    endian: Endianness,
) -> Result<Vec<Segment>, ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header =
        source.structure::<Elf>(0).ok_or(ElfError::Malformed("its header is truncated"))?;
    let count = header.e_phnum(endian);
    if count == 0 {
        return Ok(Vec::new());
    }
    // Only core files use `PN_XNUM`. No loader reads the count in section 0.
    if count == PN_XNUM {
        return Err(ElfError::Malformed("it has more program headers than a loader reads"));
    }
    let entry = size_of::<Elf::ProgramHeader>();
    if usize::from(header.e_phentsize(endian)) != entry {
        return Err(ElfError::Malformed("its program headers are not of the expected size"));
    }
    let outside = ElfError::Malformed("its program headers are outside the file");
    let size = u64::from(count) * entry as u64;
    let bytes = source.bytes(header.e_phoff(endian).into(), size).ok_or(outside.clone())?;
    let (table, _) = pod::slice_from_bytes::<Elf::ProgramHeader>(bytes, usize::from(count))
        .map_err(|()| outside)?;
    Ok(table.iter().map(|entry| segment(entry, endian)).collect())
}

fn segment<P: ProgramHeader<Endian = Endianness>>(entry: &P, endian: Endianness) -> Segment {
    Segment {
        kind: entry.p_type(endian),
        is_executable: entry.p_flags(endian).0 & PF_X.0 != 0,
        is_writable: entry.p_flags(endian).0 & PF_W.0 != 0,
        offset: entry.p_offset(endian).into(),
        vaddr: entry.p_vaddr(endian).into(),
        filesz: entry.p_filesz(endian).into(),
        memsz: entry.p_memsz(endian).into(),
        align: entry.p_align(endian).into(),
    }
}
