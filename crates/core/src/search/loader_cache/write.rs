//! Writes a loader cache of the new format, for targets of either byte order. The bytes are those
//! that glibc's `ldconfig` writes for the same entries.
//!
//! The order is that of `save_cache` (glibc 2.36 elf/cache.c): header, entries, string table, and the
//! extension directory with the array of hwcaps names and the generator's text. The string table is
//! that of elf/stringtable.c: a string that is the end of another one shares its bytes.

use std::cmp::Ordering;

use bstr::{BString, ByteSlice};
use object::elf::{self, Machine};
use rustc_hash::FxHashMap;

use super::lookup::{cache_flags, has_signed_char, libcmp};
use super::read::{
    EXTENSION_MAGIC, HWCAP_EXTENSION, NEW_ENTRY, NEW_HEADER, NEW_MAGIC, TAG_GENERATOR,
    TAG_GLIBC_HWCAPS,
};
use crate::elf::{Endian, Ident, Writer};

/// `sizeof (struct cache_extension)`.
const DIRECTORY: usize = 8;
/// `sizeof (struct cache_extension_section)`.
const SECTION: usize = 16;

/// One entry of a new cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// The needed string that the entry answers.
    pub soname: BString,
    /// The file.
    pub path: BString,
    /// The result of [`entry_flags`] for the file.
    pub flags: i32,
    /// The name of the `glibc-hwcaps` subdirectory that contains the file.
    pub hwcaps_name: Option<BString>,
}

/// Returns the flags that `ldconfig` gives a library of an ABI, and that its loader accepts.
#[must_use]
pub fn entry_flags(ident: &Ident) -> i32 {
    match (Machine(ident.machine), cache_flags(ident)) {
        // `ldconfig` gives a library that is marked with a float ABI the flags of this ABI.
        (elf::EM_ARM, (_, Some(marked))) => marked,
        (_, (default, _)) => default,
    }
}

/// Makes a cache for the loaders of `target`'s architecture. Returns `None` if it exceeds the
/// format's 32-bit offsets.
///
/// The loader answers with the first of several entries that have the same flags and equal sonames
/// (`libcmp`). Such entries keep their order, because `ldconfig` writes them in the order of its
/// directories.
#[must_use]
pub fn write(target: &Ident, mut entries: Vec<NewEntry>, generator: &str) -> Option<Vec<u8>> {
    let signed_char = has_signed_char(target.machine);
    entries.sort_by(|a, b| order(a, b, signed_char));
    entries.dedup();
    let mut names: Vec<&BString> = entries.iter().filter_map(|e| e.hwcaps_name.as_ref()).collect();
    // The loader merges this array with its own sorted names (`glibc_hwcaps_priorities_init`).
    names.sort();
    names.dedup();
    let base = NEW_HEADER + entries.len() * NEW_ENTRY;
    let strings = Strings::new(&entries, u32::try_from(base).ok()?)?;
    let extension = (base + strings.bytes.len()).next_multiple_of(4);
    let mut out = Writer::new(target.endian);
    out.bytes.extend_from_slice(NEW_MAGIC);
    out.word(u32::try_from(entries.len()).ok()?);
    out.word(u32::try_from(strings.bytes.len()).ok()?);
    // `cache_file_new_flags_endian_little` or `_big`.
    let byte_order = if target.endian == Endian::Little { 2 } else { 3 };
    out.bytes.extend([byte_order, 0, 0, 0]);
    out.word(u32::try_from(extension).ok()?);
    // The unused words at the end of `struct cache_file_new`.
    out.bytes.extend([0; 12]);
    for entry in &entries {
        let index = entry.hwcaps_name.as_ref().and_then(|name| names.binary_search(&name).ok());
        let (soname, path) = (strings.at(&entry.soname)?, strings.at(&entry.path)?);
        out.words([entry.flags.cast_unsigned(), soname, path, 0]);
        out.long(index.map_or(0, |index| HWCAP_EXTENSION | index as u64));
    }
    out.bytes.extend_from_slice(&strings.bytes);
    out.bytes.resize(extension, 0);
    extensions(&mut out, &strings, &names, generator)?;
    Some(out.bytes)
}

/// `write_extensions`.
fn extensions(
    out: &mut Writer,
    strings: &Strings<'_>,
    names: &[&BString],
    generator: &str,
) -> Option<()> {
    let sections = if names.is_empty() { 1 } else { 2 };
    let data = out.bytes.len() + DIRECTORY + sections * SECTION;
    let array = names.len() * 4;
    out.word(EXTENSION_MAGIC);
    out.word(u32::try_from(sections).ok()?);
    out.section(TAG_GENERATOR, data + array, generator.len())?;
    if !names.is_empty() {
        out.section(TAG_GLIBC_HWCAPS, data, array)?;
    }
    for name in names {
        out.word(strings.at(name)?);
    }
    out.bytes.extend_from_slice(generator.as_bytes());
    Some(())
}

/// `compare`: the table is sorted in descending order, with the named entries of a soname before the
/// others. Equal entries keep the order in which they were added (`add_to_cache`).
fn order(a: &NewEntry, b: &NewEntry, signed_char: bool) -> Ordering {
    libcmp(&b.soname, &a.soname, signed_char)
        .then_with(|| b.flags.cmp(&a.flags))
        .then_with(|| a.hwcaps_name.is_none().cmp(&b.hwcaps_name.is_none()))
        .then_with(|| a.hwcaps_name.cmp(&b.hwcaps_name))
}

/// The string table. Each string occurs once. The strings are sorted from their last byte, so that
/// a string that is the end of another one follows it.
struct Strings<'a> {
    bytes: Vec<u8>,
    at: FxHashMap<&'a BString, u32>,
}

impl<'a> Strings<'a> {
    fn new(entries: &'a [NewEntry], base: u32) -> Option<Self> {
        let names = |e: &'a NewEntry| [Some(&e.soname), Some(&e.path), e.hwcaps_name.as_ref()];
        let mut all: Vec<&BString> = entries.iter().flat_map(names).flatten().collect();
        // `finalize_compare`: compares the bytes from the last one back, in descending order. If one
        // string is the end of the other, the longer one is first.
        all.sort_by(|a, b| b.bytes().rev().cmp(a.bytes().rev()));
        all.dedup();
        let mut strings = Self { bytes: Vec::new(), at: FxHashMap::default() };
        let mut previous: Option<&BString> = None;
        for string in all {
            // The string is the end of the one before it and shares its bytes, or is appended.
            if !previous.is_some_and(|longer| longer.ends_with(string)) {
                strings.bytes.extend_from_slice(string);
                strings.bytes.push(0);
                previous = Some(string);
            }
            let offset = u32::try_from(strings.bytes.len() - 1 - string.len()).ok()?;
            strings.at.insert(string, base.checked_add(offset)?);
        }
        Some(strings)
    }

    fn at(&self, string: &BString) -> Option<u32> {
        self.at.get(string).copied()
    }
}

impl Writer {
    fn section(&mut self, tag: u32, offset: usize, size: usize) -> Option<()> {
        self.words([tag, 0, u32::try_from(offset).ok()?, u32::try_from(size).ok()?]);
        Some(())
    }
}
