//! The writer of the small ELF files that tests build: [`Writer`] of `object`, which lays out headers,
//! strings, symbols, hash tables, versions, dynamic entries and sections of any class and byte order.
//!
//! A test that needs a malformed file overwrites bytes of one that is well formed ([`number`]): the
//! writer computes counts, sizes and offsets itself.

use object::Endianness;
use object::elf::{EM_NONE, ProgramFlags, ProgramType};

pub use object::write::elf::{
    Encoder, FileHeader, ProgramHeader, Rel, SectionHeader, SinglePhase, Sym, Verdef, Vernaux,
    Verneed, Writer,
};

/// The class and byte order of a file, with the sizes of its structures.
pub type Encoding = Encoder<Endianness>;

/// Returns the encoding of a class and byte order.
#[must_use]
pub fn encoding(is_64: bool, is_big: bool) -> Encoding {
    let endian = if is_big { Endianness::Big } else { Endianness::Little };
    Encoder::new(endian, is_64, EM_NONE)
}

/// Returns the lower `size` bytes of a number, in the byte order of the file.
#[must_use]
pub fn number(encoding: Encoding, value: u64, size: usize) -> Vec<u8> {
    match encoding.endian() {
        Endianness::Little => value.to_le_bytes()[..size].to_vec(),
        Endianness::Big => value.to_be_bytes()[8 - size..].to_vec(),
    }
}

/// Returns the program header of `size` bytes whose addresses are `bias` above their offsets.
#[must_use]
pub fn segment(
    kind: ProgramType,
    flags: ProgramFlags,
    offset: u64,
    size: u64,
    bias: u64,
    align: u64,
) -> ProgramHeader {
    ProgramHeader {
        p_type: kind,
        p_flags: flags,
        p_offset: offset,
        p_vaddr: offset + bias,
        p_paddr: offset + bias,
        p_filesz: size,
        p_memsz: size,
        p_align: align,
    }
}

/// Writes a file: `parts` writes what follows the program headers, and returns these.
///
/// Returns the file header and the program headers. The caller copies them over the beginning of
/// `bytes`, which the writer borrows together with the strings of `parts`.
///
/// # Panics
/// Panics if `parts` returns another number of program headers than `count`, or if the file exceeds
/// the offsets of its class.
#[must_use]
pub fn write<'a>(
    bytes: &'a mut Vec<u8>,
    encoding: Encoding,
    header: &FileHeader,
    count: usize,
    parts: impl FnOnce(&mut Writer<'a, SinglePhase>) -> Vec<ProgramHeader>,
) -> Vec<u8> {
    let mut writer = Writer::new_single_phase(encoding.endian(), encoding.is_64(), bytes);
    writer.write_file_header(header).expect("a file header");
    writer.write_program_headers_placeholder(count as u32);
    let segments = parts(&mut writer);
    assert_eq!(segments.len(), count, "the program headers");
    let mut head = Vec::new();
    writer.write_headers_to(&mut head, &segments).expect("the headers");
    head
}
