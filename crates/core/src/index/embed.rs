//! Joins the module and a table into one shared object.
//!
//! In the module's linker script the last segment has the code and constants, and the table's place
//! is at its end. To add a table, [`embed`] appends it and extends that segment. The section
//! headers, which would follow, are removed. Before the table there is a checksum of the module, so
//! that a damaged module gives no answers (`crates/audit/module/whole.c`).

use std::ops::Range;

use bstr::ByteSlice;
use object::elf::{PT_DYNAMIC, PT_GNU_STACK, PT_LOAD};
use thiserror::Error;

use super::header::Header;
use super::layout::{Reader, Writer, kind};
use super::{Target, hash, layout, names};
use crate::elf::{Class, ET_DYN, Image, Segment, ident};

/// Bytes from the module's check to the table.
const CHECK: usize = 64;
/// Offset from the check to the flag that the table has bindings. The module of a program without
/// other lookups reads the table only if this flag is set.
const HAS_BINDINGS: usize = 8;
/// Seed of the check's hash.
const CHECK_SEED: u64 = 1;

/// The reason why a file cannot take a table, or has none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EmbedError {
    /// Its segments differ from those of the module's linker script.
    #[error("not an audit module: {0}")]
    NotAModule(&'static str),
    /// Module and table are for two machines.
    #[error("the module and the table are for different machines")]
    OtherMachine,
    /// The module has no table.
    #[error("the module carries no table")]
    NoTable,
}

/// Returns the module with the table in it. A table that `module` has already is replaced.
///
/// # Errors
/// Returns [`EmbedError`] if `module` is not an audit module, or is for another machine than
/// `table`.
pub fn embed(module: &[u8], table: &[u8]) -> Result<Vec<u8>, EmbedError> {
    let place = place(module)?;
    let order = Reader { endian: place.target.endian, bytes: table };
    if order.word(16).and_then(layout::target_of) != Some(place.target) {
        return Err(EmbedError::OtherMachine);
    }
    let bare = without_table(module, &place);
    let mut file = bare.to_vec();
    file.extend_from_slice(table);
    let length = file.len() as u64 - place.offset;
    place.set_length(&mut file, length);
    if let Some(room) = place.names(module) {
        file[room].copy_from_slice(&names::of(table));
    }
    let at = bare.len() - CHECK;
    let mut check = Writer::new(place.target.endian);
    check.long(place.check(&file, at));
    file[at..at + 8].copy_from_slice(&check.bytes);
    let header = Header::read(table, table.len());
    let has_bindings = header.is_ok_and(|header| header.has(kind::BOUND_PROGRAMS));
    file[at + HAS_BINDINGS] = u8::from(has_bindings);
    Ok(file)
}

/// Returns the module without a table, and the table, of a file that [`embed`] made.
///
/// # Errors
/// Returns [`EmbedError`] if [`embed`] did not make the file.
pub fn split(file: &[u8]) -> Result<(Vec<u8>, &[u8]), EmbedError> {
    let place = place(file)?;
    let bare = without_table(file, &place);
    let table = &file[bare.len()..place.end];
    if table.is_empty() {
        return Err(EmbedError::NoTable);
    }
    let mut module = bare.to_vec();
    place.set_length(&mut module, bare.len() as u64 - place.offset);
    module[bare.len() - CHECK..][..=HAS_BINDINGS].fill(0);
    if let Some(room) = place.names(file) {
        module[room].fill(0);
    }
    Ok((module, table))
}

/// Returns true if the module in a file that [`embed`] made is unchanged.
///
/// # Errors
/// Returns [`EmbedError`] if the file is not an audit module.
pub fn module_is_whole(file: &[u8]) -> Result<bool, EmbedError> {
    let place = place(file)?;
    let at = without_table(file, &place).len() - CHECK;
    let check = Reader { endian: place.target.endian, bytes: file }.long(at);
    Ok(check == Some(place.check(file, at)))
}

/// Position of the last segment of a module and of its program header.
struct Place {
    target: Target,
    /// Offset of its program header.
    header: usize,
    offset: u64,
    end: usize,
    /// Offset of the dynamic section. The loader writes nothing before it.
    dynamic: usize,
}

impl Place {
    /// Writes the segment's length and removes the section headers.
    fn set_length(&self, file: &mut [u8], length: u64) {
        let mut number = Writer::new(self.target.endian);
        let (filesz, memsz, shoff, shnum) = match self.target.class {
            Class::Elf64 => (32, 40, 40, 60),
            Class::Elf32 => (16, 20, 32, 48),
        };
        match self.target.class {
            Class::Elf64 => number.long(length),
            Class::Elf32 => number.word(length as u32),
        }
        let size = number.bytes.len();
        for at in [self.header + filesz, self.header + memsz] {
            file[at..at + size].copy_from_slice(&number.bytes);
        }
        file[shoff..shoff + size].fill(0);
        // `e_shnum` and `e_shstrndx`.
        file[shnum..shnum + 4].fill(0);
    }

    /// Returns the place of the names of programs, after the program headers; `None` for a module that has
    /// none, whose symbols follow there.
    fn names(&self, file: &[u8]) -> Option<Range<usize>> {
        let reader = Reader { endian: self.target.endian, bytes: file };
        let (header, count, size) = match self.target.class {
            Class::Elf64 => (64, reader.half(56)?, 56),
            Class::Elf32 => (52, reader.half(44)?, 32),
        };
        let start = (header + usize::from(count) * size).next_multiple_of(8);
        (start + names::SIZE <= self.dynamic).then_some(start..start + names::SIZE)
    }

    /// Hashes the bytes before the dynamic section, then those of the last segment before the check
    /// at `at`.
    fn check(&self, file: &[u8], at: usize) -> u64 {
        let head = hash::bytes(CHECK_SEED, &file[..self.dynamic]);
        hash::block(head, &file[self.offset as usize..at])
    }
}

/// Returns true if a file with these first bytes has the headers of an index, even if the rest of it
/// is damaged or missing: no section headers, and the segments of the module's linker script
/// (`module.lds`) as far as `head` has them.
#[must_use]
pub fn begins_as_index(head: &[u8]) -> bool {
    /// `p_type` and `p_flags`.
    const SEGMENTS: [(u32, u32); 4] =
        [(PT_LOAD.0, 6), (PT_LOAD.0, 5), (PT_DYNAMIC.0, 6), (PT_GNU_STACK.0, 6)];
    let Some(ident) = ident(head) else { return false };
    let reader = Reader { endian: ident.endian, bytes: head };
    let (shoff, counts, headers, size, flags) = match ident.class {
        Class::Elf64 => (reader.long(40), 56, 64, 56, 4),
        Class::Elf32 => (reader.word(32).map(u64::from), 44, 52, 32, 24),
    };
    let count = |at: usize| reader.half(counts + at).map(usize::from);
    let is_segment = |(number, wanted): (usize, (u32, u32))| {
        let at = headers + number * size;
        let found = (reader.word(at), reader.word(at + flags));
        found.0.is_none_or(|kind| kind == wanted.0) && found.1.is_none_or(|bits| bits == wanted.1)
    };
    ident.e_type == ET_DYN
        && shoff == Some(0)
        && (count(0), count(4)) == (Some(SEGMENTS.len()), Some(0))
        && SEGMENTS.into_iter().enumerate().all(is_segment)
}

/// Returns the number of bytes of an index: all up to the end of its last segment. `head` is the
/// start of a file of `length` bytes. Returns `None` if the file has section headers, which
/// [`embed`] removes, and is thus not an index.
#[must_use]
pub fn extent(head: &[u8], length: usize) -> Option<usize> {
    let place = last_segment(head, length).ok()?;
    let reader = Reader { endian: place.target.endian, bytes: head };
    let shoff = match place.target.class {
        Class::Elf64 => reader.long(40),
        Class::Elf32 => reader.word(32).map(u64::from),
    };
    (shoff == Some(0)).then_some(place.end)
}

fn place(module: &[u8]) -> Result<Place, EmbedError> {
    let place = last_segment(module, module.len())?;
    if without_table(module, &place).len() < place.offset as usize + CHECK {
        return Err(EmbedError::NotAModule("it has no room for its check"));
    }
    Ok(place)
}

fn last_segment(module: &[u8], length: usize) -> Result<Place, EmbedError> {
    let broken = EmbedError::NotAModule("its program headers lie outside the file");
    let ident = ident(module).ok_or(EmbedError::NotAModule("it is no ELF file"))?;
    let target = Target::of(&ident);
    let image = Image::new(module).map_err(|_| broken.clone())?;
    let segments = &image.segments;
    // gABI: `PT_LOAD`s are sorted by address. Only the last one can grow.
    let last = segments.iter().rposition(|segment| segment.kind == PT_LOAD);
    let last = last.ok_or(EmbedError::NotAModule("it has no segment to load"))?;
    let (phoff_at, size) = if target.class == Class::Elf64 { (32, 56) } else { (28, 32) };
    let phoff = image.ident.address(module, phoff_at);
    let header = phoff.and_then(|at| usize::try_from(at).ok()).ok_or(broken)? + last * size;
    let within = |at: u64| usize::try_from(at).ok().filter(|&at| at <= length);
    let dynamic = segments.iter().rfind(|segment| segment.kind == PT_DYNAMIC);
    let dynamic = dynamic
        .and_then(|segment| within(segment.offset))
        .ok_or(EmbedError::NotAModule("it has no dynamic section"))?;
    let Segment { offset, filesz, .. } = segments[last];
    let end = offset
        .checked_add(filesz)
        .and_then(within)
        .ok_or(EmbedError::NotAModule("the file is shorter than its segments"))?;
    Ok(Place { target, header, offset, end, dynamic })
}

/// Returns the part of the file before a table: all up to the last segment's end, or up to the
/// table in it.
fn without_table<'a>(file: &'a [u8], place: &Place) -> &'a [u8] {
    let segment = &file[..place.end];
    let start = place.offset as usize;
    let mut from = start;
    while let Some(found) = segment[from..].find(layout::MAGIC) {
        let at = from + found;
        let reader = Reader { endian: place.target.endian, bytes: segment };
        let is_header = reader.word(at + 8) == Some(layout::ORDER)
            && reader.word(at + 20).map(|length| length as usize) == Some(place.end - at);
        if is_header {
            return &segment[..at];
        }
        // The module's own code or constants can have the magic too.
        from = at + 1;
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Endian;

    #[test]
    fn a_machine_word_of_the_other_order_names_no_machine() {
        let target = Target { machine: 62, class: Class::Elf64, endian: Endian::Little };
        let word = layout::machine_word(target);
        assert_eq!(layout::target_of(word), Some(target));
        assert_eq!(layout::target_of(word.swap_bytes()), None);
    }
}
