//! The formats of a loader cache, and checked access to its entries.
//!
//! A cache has one of three layouts (glibc 2.36 sysdeps/generic/dl-cache.h): the old one of libc5
//! (`ld.so-1.7.0`), the new one (`glibc-ld.so.cache1.1`), or the old one with the new one in place
//! of its strings ("compat"). All numbers are in the byte order of the cache's machine.

use std::sync::Arc;

use bstr::{BStr, ByteSlice};
use object::elf::{self, Machine};

use crate::elf::{Class, Endian, Ident, Reader};

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// `CACHEMAGIC_NEW` and `CACHE_VERSION`, at the start of a cache in the new format.
pub const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// `sizeof (struct cache_file)`: magic, padding, count.
const OLD_HEADER: usize = 16;
/// `sizeof (struct file_entry)`: flags, key, value.
const OLD_ENTRY: usize = 12;
/// `sizeof (struct cache_file_new)`.
pub(super) const NEW_HEADER: usize = 48;
/// `sizeof (struct file_entry_new)`: an old entry, an unused word, hwcap.
pub(super) const NEW_ENTRY: usize = 24;

/// The offset of the count of `struct cache_file`.
const OLD_COUNT: usize = 12;
/// The offsets of the fields of `struct cache_file_new`.
const NEW_COUNT: usize = 20;
const NEW_FLAGS: usize = 28;
const NEW_EXTENSION: usize = 32;

/// `cache_extension_magic`.
pub(super) const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// `cache_extension_tag_generator`.
pub(super) const TAG_GENERATOR: u32 = 0;
/// `cache_extension_tag_glibc_hwcaps`.
pub(super) const TAG_GLIBC_HWCAPS: u32 = 1;

/// The limit on the `glibc-hwcaps` names of a cache, more than any machine has subdirectories.
/// Further names are ignored, so that a hostile cache cannot make each lookup walk a long list.
const MAX_NAMES: usize = 256;

/// `DL_CACHE_HWCAP_EXTENSION`.
pub(super) const HWCAP_EXTENSION: u64 = 1 << 62;
/// `DL_CACHE_HWCAP_ISA_LEVEL_MASK`.
const ISA_LEVEL_MASK: u64 = (1 << 10) - 1;

/// The bytes of a loader cache and the position of the table that the loader searches.
#[derive(Clone, Debug)]
pub struct LoaderCache {
    bytes: Arc<[u8]>,
    endian: Endian,
    /// True for the new format, whose entries have a hwcap field.
    pub(super) is_new: bool,
    /// The number of entries in the header. The loader does not limit it.
    pub(super) count: u32,
    /// Offset of the first entry.
    first: usize,
    /// Offset that string indices are relative to.
    strings: usize,
    /// `cache_extension_tag_glibc_hwcaps`: the offset of the array and its length in elements.
    /// Empty if the section is missing or the extension directory is malformed.
    hwcaps_names: (usize, usize),
    /// `cache_extension_tag_generator`: the offset and length of the text, empty likewise.
    generator: (usize, usize),
}

/// One entry as it is in the file, its indices not checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry {
    pub(super) flags: i32,
    pub(super) key: u32,
    pub(super) value: u32,
    /// 0 in the old format.
    pub(super) hwcap: u64,
}

/// One entry with its strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEntry<'cache> {
    /// The needed string that the entry answers.
    pub soname: &'cache BStr,
    /// The file.
    pub path: &'cache BStr,
    /// The type (`FLAG_ELF_LIBC6`) in the low byte and the ABI above it (glibc
    /// sysdeps/generic/ldconfig.h).
    pub flags: i32,
    /// The hwcap field; 0 in the old format.
    pub hwcap: u64,
    /// The name of the `glibc-hwcaps` subdirectory that contains the file.
    pub hwcaps_name: Option<&'cache BStr>,
}

/// Returns true if the lower half of a hwcap field is the index of a `glibc-hwcaps` name
/// (`dl_cache_hwcap_extension`).
pub(super) fn is_named(hwcap: u64) -> bool {
    (hwcap >> 32) & !ISA_LEVEL_MASK == HWCAP_EXTENSION >> 32
}

/// Returns the ISA level of a named entry.
pub(super) fn isa_level(hwcap: u64) -> u32 {
    ((hwcap >> 32) & ISA_LEVEL_MASK) as u32
}

impl Reader<'_> {
    /// Returns true if a magic is at an offset.
    fn has(&self, offset: usize, magic: &[u8]) -> bool {
        self.bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    }

    /// Finds the table that the loader searches: returns the offset of its header, and true for the
    /// new format. Returns `None` if there is none or if it does not fit in the file.
    fn header(&self, alignment: usize) -> Option<(usize, bool)> {
        let len = self.bytes.len();
        let fits = |header: usize, count: usize, entry: usize| {
            let count = self.word(count).filter(|_| len > header);
            count.is_some_and(|count| (len - header) / entry >= count as usize)
        };
        if self.has(0, NEW_MAGIC) && fits(NEW_HEADER, NEW_COUNT, NEW_ENTRY) {
            return Some((0, true));
        }
        if !self.has(0, OLD_MAGIC) || !fits(OLD_HEADER, OLD_COUNT, OLD_ENTRY) {
            return None;
        }
        // `ALIGN_CACHE`: the new header follows the old table.
        let end = OLD_HEADER + self.word(OLD_COUNT)? as usize * OLD_ENTRY;
        let offset = end.next_multiple_of(alignment);
        let is_new = offset + NEW_HEADER <= len && self.has(offset, NEW_MAGIC);
        Some(if is_new { (offset, true) } else { (0, false) })
    }

    /// `cache_file_new_matches_endian`. A cache of a release before 2.33 has no byte order flag and
    /// is accepted.
    fn matches_endian(&self, header: usize) -> bool {
        let wanted = if self.endian == Endian::Little { 2 } else { 3 };
        let flags = self.bytes.get(header + NEW_FLAGS).copied().unwrap_or(0);
        flags == 0 || flags & 3 == wanted
    }

    /// `cache_extension_load`: returns the offset and size of the last section with a tag. Offsets
    /// are relative to the file, in the compat format as well.
    fn section(&self, header: usize, tag: u32) -> Option<(usize, usize)> {
        let directory = self.word(header + NEW_EXTENSION)? as usize;
        // Releases before 2.33 write zeros here.
        if directory == 0
            || !directory.is_multiple_of(4)
            || self.word(directory)? != EXTENSION_MAGIC
        {
            return None;
        }
        let count = self.word(directory + 4)? as usize;
        // A directory that does not fit in the file makes glibc ignore all extensions.
        let sections = self.bytes.get(directory + 8..)?.get(..count.checked_mul(16)?)?;
        let mut found = None;
        for section in sections.chunks_exact(16) {
            let number = |at| self.endian.u32(section, at).map(|number| number as usize);
            let (offset, size) = (number(8)?, number(12)?);
            if offset.checked_add(size)? > self.bytes.len() {
                return None;
            }
            if number(0)? == tag as usize {
                found = Some((offset, size));
            }
        }
        found
    }
}

/// Returns `__alignof__ (struct cache_file_new)`: 4 on ABIs that align a 64-bit number to 4 bytes
/// inside a structure, 8 on all others.
fn alignment(ident: &Ident) -> usize {
    match (ident.class, Machine(ident.machine)) {
        (Class::Elf32, elf::EM_386 | elf::EM_68K) => 4,
        _ => 8,
    }
}

impl LoaderCache {
    /// Parses a cache as the loader of a 64-bit target with this byte order does; see
    /// [`LoaderCache::parse_for`].
    #[must_use]
    pub fn parse(bytes: impl Into<Arc<[u8]>>, endian: Endian) -> Option<Self> {
        Self::parse_aligned(bytes.into(), endian, 8)
    }

    /// Parses a cache as the loader of `ident`'s ABI does (glibc 2.36 elf/dl-cache.c
    /// `_dl_load_cache_lookup`). Returns `None` if that loader would ignore the file: another
    /// magic, another byte order, or a table that does not fit in the file.
    ///
    /// The result differs from [`LoaderCache::parse`] only on 32-bit x86 and m68k, whose compat
    /// format has another alignment.
    #[must_use]
    pub fn parse_for(bytes: impl Into<Arc<[u8]>>, ident: &Ident) -> Option<Self> {
        Self::parse_aligned(bytes.into(), ident.endian, alignment(ident))
    }

    fn parse_aligned(bytes: Arc<[u8]>, endian: Endian, alignment: usize) -> Option<Self> {
        let reader = Reader { bytes: &bytes, endian };
        let (header, is_new) = reader.header(alignment)?;
        if is_new && !reader.matches_endian(header) {
            return None;
        }
        // In the compat format glibc does not compare the new count with the size of the file.
        // [`LoaderCache::raw`] checks each entry.
        let count = reader.word(if is_new { header + NEW_COUNT } else { OLD_COUNT })?;
        let (first, strings) = match is_new {
            // String indices count from the new header, in the compat format too.
            true => (header + NEW_HEADER, header),
            // In the old format they count from the end of the table (`&cache->libs[cache->nlibs]`).
            false => (OLD_HEADER, OLD_HEADER + count as usize * OLD_ENTRY),
        };
        let section = |tag| reader.section(header, tag).filter(|_| is_new);
        // `cache_extension_verify`.
        let fits =
            |&(offset, size): &(usize, usize)| offset.is_multiple_of(4) && size.is_multiple_of(4);
        let names = section(TAG_GLIBC_HWCAPS).filter(fits).unwrap_or_default();
        let hwcaps_names = (names.0, (names.1 / 4).min(MAX_NAMES));
        let generator = section(TAG_GENERATOR).unwrap_or_default();
        Some(Self { bytes, endian, is_new, count, first, strings, hwcaps_names, generator })
    }

    /// Returns the entry at an index. Returns `None` outside the file, where the loader would
    /// fault.
    pub(super) fn raw(&self, index: u32) -> Option<RawEntry> {
        let size = if self.is_new { NEW_ENTRY } else { OLD_ENTRY };
        let offset = (index as usize).checked_mul(size)?.checked_add(self.first)?;
        let word = |at| self.endian.u32(&self.bytes, at);
        Some(RawEntry {
            flags: word(offset)?.cast_signed(),
            key: word(offset + 4)?,
            value: word(offset + 8)?,
            hwcap: if self.is_new { self.endian.u64(&self.bytes, offset + 16)? } else { 0 },
        })
    }

    /// Returns the bytes from a string index to the end of the file, or `None` for an index outside
    /// the file (`_dl_cache_verify_ptr`).
    pub(super) fn tail(&self, index: u32) -> Option<&[u8]> {
        let offset = self.strings.checked_add(index as usize)?;
        self.bytes.get(offset..).filter(|tail| !tail.is_empty())
    }

    /// Returns the string at an index.
    pub(super) fn string(&self, index: u32) -> Option<&BStr> {
        self.tail(index).map(up_to_nul)
    }

    /// Returns the sorted `glibc-hwcaps` names of the extension section. A name outside the file
    /// is returned as an empty string, which matches no subdirectory.
    pub(super) fn hwcaps_names(&self) -> impl Iterator<Item = &BStr> {
        let (first, count) = self.hwcaps_names;
        (0..count).map(move |index| {
            let offset = self.endian.u32(&self.bytes, first + index * 4).unwrap_or(u32::MAX);
            self.bytes.get(offset as usize..).map(up_to_nul).unwrap_or_default()
        })
    }

    /// Returns the text of the generator section, or an empty string if there is none.
    #[must_use]
    pub fn generator(&self) -> &BStr {
        let (offset, size) = self.generator;
        self.bytes.get(offset..).and_then(|rest| rest.get(..size)).unwrap_or_default().as_bstr()
    }

    /// Returns the entries in the order of the file. Entries with a string outside the file are
    /// left out.
    pub fn entries(&self) -> impl Iterator<Item = CacheEntry<'_>> {
        (0..self.count).map_while(|index| self.raw(index)).filter_map(|raw| {
            let name = is_named(raw.hwcap).then_some(raw.hwcap as u32 as usize);
            Some(CacheEntry {
                soname: self.string(raw.key)?,
                path: self.string(raw.value)?,
                flags: raw.flags,
                hwcap: raw.hwcap,
                hwcaps_name: name.and_then(|index| self.hwcaps_names().nth(index)),
            })
        })
    }
}

fn up_to_nul(bytes: &[u8]) -> &BStr {
    let end = bytes.find_byte(0).unwrap_or(bytes.len());
    BStr::new(&bytes[..end])
}
