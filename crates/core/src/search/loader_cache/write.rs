//! Making a loader cache of the new format, byte for byte as glibc's `ldconfig` would for
//! the same entries, whatever the target's byte order.
//!
//! glibc 2.36 elf/cache.c `save_cache`: header, entries, string table, extension directory
//! with the array of hwcaps names and the generator's text. The strings are laid out as
//! elf/stringtable.c does: one that ends another shares its bytes.

use std::cmp::Ordering;

use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::lookup::{cache_flags, has_signed_char, libcmp};
use crate::elf::{Endian, Ident};
use crate::search::hwcaps::arch::machine;

/// `sizeof (struct cache_file_new)` and `sizeof (struct file_entry_new)`.
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// `cache_extension_magic`.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// `sizeof (struct cache_extension)`, `sizeof (struct cache_extension_section)`.
const DIRECTORY: usize = 8;
const SECTION: usize = 16;
/// `cache_extension_tag_generator`, `cache_extension_tag_glibc_hwcaps`.
const GENERATOR: u32 = 0;
const HWCAPS: u32 = 1;
/// `DL_CACHE_HWCAP_EXTENSION`.
const HWCAP_EXTENSION: u64 = 1 << 62;

/// One entry to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// The name libraries are asked for by.
    pub soname: BString,
    /// The file.
    pub path: BString,
    /// [`entry_flags`] of the file.
    pub flags: i32,
    /// The `glibc-hwcaps` subdirectory the file lies in.
    pub hwcaps_name: Option<BString>,
}

/// The flags that `ldconfig` gives a library of an ABI, and its loader takes.
#[must_use]
pub fn entry_flags(ident: &Ident) -> i32 {
    match (ident.machine, cache_flags(ident)) {
        // A library that names its float ABI is not of the generic kind.
        (machine::ARM, (_, Some(marked))) => marked,
        (_, (default, _)) => default,
    }
}

/// The bytes of a cache for the loaders of `target`'s architecture. `None` where it would
/// not fit the format's 32-bit offsets.
///
/// Of entries with the same flags whose sonames a loader takes for one (`libcmp`), the
/// order given stays: the loader takes the first one, and `ldconfig` writes them in the
/// order of its directories.
#[must_use]
pub fn write(target: &Ident, mut entries: Vec<NewEntry>, generator: &str) -> Option<Vec<u8>> {
    let signed_char = has_signed_char(target.machine);
    entries.sort_by(|a, b| order(a, b, signed_char));
    entries.dedup();
    let mut names: Vec<&BString> = entries.iter().filter_map(|e| e.hwcaps_name.as_ref()).collect();
    names.sort();
    names.dedup();
    let base = HEADER + entries.len() * ENTRY;
    let strings = Strings::new(&entries, u32::try_from(base).ok()?)?;
    let extension = (base + strings.bytes.len()).next_multiple_of(4);
    let mut out = Out { endian: target.endian, bytes: Vec::with_capacity(extension + 256) };
    out.bytes.extend_from_slice(b"glibc-ld.so.cache1.1");
    out.u32(u32::try_from(entries.len()).ok()?);
    out.u32(u32::try_from(strings.bytes.len()).ok()?);
    let mark = if target.endian == Endian::Little { 2 } else { 3 };
    out.bytes.extend([mark, 0, 0, 0]);
    out.u32(u32::try_from(extension).ok()?);
    out.bytes.extend([0; 12]);
    for entry in &entries {
        let index = entry.hwcaps_name.as_ref().and_then(|name| names.binary_search(&name).ok());
        out.u32(entry.flags.cast_unsigned());
        out.u32(strings.at(&entry.soname)?);
        out.u32(strings.at(&entry.path)?);
        out.u32(0);
        out.u64(index.map_or(0, |index| HWCAP_EXTENSION | index as u64));
    }
    out.bytes.extend_from_slice(&strings.bytes);
    out.bytes.resize(extension, 0);
    extensions(&mut out, &strings, &names, generator)?;
    Some(out.bytes)
}

/// `write_extensions`.
fn extensions(out: &mut Out, strings: &Strings, names: &[&BString], generator: &str) -> Option<()> {
    let sections = if names.is_empty() { 1 } else { 2 };
    let data = out.bytes.len() + DIRECTORY + sections * SECTION;
    let array = names.len() * 4;
    out.u32(EXTENSION_MAGIC);
    out.u32(u32::try_from(sections).ok()?);
    out.section(GENERATOR, data + array, generator.len())?;
    if !names.is_empty() {
        out.section(HWCAPS, data, array)?;
    }
    for name in names {
        out.u32(strings.at(name)?);
    }
    out.bytes.extend_from_slice(generator.as_bytes());
    Some(())
}

/// `compare`: the table is sorted downwards, so that a binary search meets the entries of a
/// name with the named ones first. Entries that are equal stay in the order in which they
/// were added (`add_to_cache`).
fn order(a: &NewEntry, b: &NewEntry, signed_char: bool) -> Ordering {
    libcmp(&b.soname, &a.soname, signed_char)
        .then_with(|| b.flags.cmp(&a.flags))
        .then_with(|| a.hwcaps_name.is_none().cmp(&b.hwcaps_name.is_none()))
        .then_with(|| a.hwcaps_name.cmp(&b.hwcaps_name))
}

/// The string table: each string once, sorted by its end, so that one that ends another
/// comes right behind it.
struct Strings {
    bytes: Vec<u8>,
    at: FxHashMap<BString, u32>,
}

impl Strings {
    fn new(entries: &[NewEntry], base: u32) -> Option<Self> {
        let mut all: Vec<&BString> = entries
            .iter()
            .flat_map(|e| [Some(&e.soname), Some(&e.path), e.hwcaps_name.as_ref()])
            .flatten()
            .collect();
        all.sort_by(|a, b| by_end(a, b));
        all.dedup();
        let mut strings = Self { bytes: Vec::new(), at: FxHashMap::default() };
        let mut previous: Option<(&BString, u32)> = None;
        for string in all {
            let offset = match previous {
                Some((longer, at)) if longer.ends_with(string) => {
                    at + u32::try_from(longer.len() - string.len()).ok()?
                }
                _ => {
                    let at = u32::try_from(strings.bytes.len()).ok()?;
                    strings.bytes.extend_from_slice(string);
                    strings.bytes.push(0);
                    at
                }
            };
            strings.at.insert(string.clone(), base.checked_add(offset)?);
            previous = Some((string, offset));
        }
        Some(strings)
    }

    fn at(&self, string: &BString) -> Option<u32> {
        self.at.get(string).copied()
    }
}

/// `finalize_compare`: by the bytes from the last one back, downwards; of two that agree as
/// far as they go, the longer first.
fn by_end(a: &BString, b: &BString) -> Ordering {
    let mut pairs = a.bytes().rev().zip(b.bytes().rev());
    let differs = pairs.find(|(a, b)| a != b).map(|(a, b)| b.cmp(&a));
    differs.unwrap_or_else(|| b.len().cmp(&a.len()))
}

/// The file so far, numbers in the target's byte order.
struct Out {
    endian: Endian,
    bytes: Vec<u8>,
}

impl Out {
    fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend(match self.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    fn section(&mut self, tag: u32, offset: usize, size: usize) -> Option<()> {
        self.u32(tag);
        self.u32(0);
        self.u32(u32::try_from(offset).ok()?);
        self.u32(u32::try_from(size).ok()?);
        Some(())
    }
}
