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

/// The bytes of a loader cache and their layout.
#[derive(Clone, Debug)]
pub struct LoaderCache {
    bytes: Arc<[u8]>,
    endian: Endian,
    pub(super) layout: Layout,
    /// `cache_extension_tag_glibc_hwcaps`: the offset of the array and its length in elements.
    /// Empty if the section is missing or the extension directory is malformed.
    hwcaps_names: (usize, usize),
    /// `cache_extension_tag_generator`: the offset and length of the text, empty likewise.
    generator: (usize, usize),
}

/// The position of the table that the loader searches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// True for the new format, whose entries have a hwcap field.
    pub(super) is_new: bool,
    /// The number of entries in the header. The loader does not limit it.
    pub(super) count: u32,
    /// Offset of the first entry.
    first: usize,
    /// Offset that string indices are relative to.
    strings: usize,
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

    /// `cache_file_new_matches_endian`. A cache of a release before 2.33 has no byte order flag and
    /// is accepted.
    fn matches_endian(&self, header: usize) -> bool {
        let wanted = match self.endian {
            Endian::Little => 2,
            Endian::Big => 3,
        };
        let flags = self.bytes.get(header + NEW_FLAGS).copied().unwrap_or(0);
        flags == 0 || flags & 3 == wanted
    }

    /// `cache_extension_verify` for the section that a loader reads. Returns the offset and the
    /// number of elements.
    fn hwcaps_names(&self, header: usize) -> Option<(usize, usize)> {
        let (offset, size) = self.section(header, TAG_GLIBC_HWCAPS)?;
        (size != 0 && offset.is_multiple_of(4) && size.is_multiple_of(4))
            .then_some((offset, (size / 4).min(MAX_NAMES)))
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
        let sections = self.bytes.get(directory + 8..)?.len() / 16;
        if count > sections {
            return None;
        }
        let mut found = None;
        for index in 0..count {
            let section = directory + 8 + index * 16;
            let (offset, size) =
                (self.word(section + 8)? as usize, self.word(section + 12)? as usize);
            if offset.checked_add(size)? > self.bytes.len() {
                return None;
            }
            if self.word(section)? == tag {
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
        // `None` inside is a cache of the old format only.
        let header =
            if new_header(&reader) { Some(0) } else { embedded_header(&reader, alignment)? };
        let layout = match header {
            Some(header) => {
                if !reader.matches_endian(header) {
                    return None;
                }
                // In the compat format glibc does not compare this count with the size of the file.
                // [`LoaderCache::raw`] checks each entry.
                let count = reader.word(header + NEW_COUNT)?;
                // String indices count from the new header, in the compat format too.
                Layout { is_new: true, count, first: header + NEW_HEADER, strings: header }
            }
            None => {
                let count = reader.word(OLD_HEADER - 4)?;
                // In the old format they count from the end of the table
                // (`&cache->libs[cache->nlibs]`).
                let strings = OLD_HEADER + count as usize * OLD_ENTRY;
                Layout { is_new: false, count, first: OLD_HEADER, strings }
            }
        };
        let hwcaps_names =
            header.and_then(|header| reader.hwcaps_names(header)).unwrap_or_default();
        let generator =
            header.and_then(|header| reader.section(header, TAG_GENERATOR)).unwrap_or_default();
        Some(LoaderCache { bytes, endian, layout, hwcaps_names, generator })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { bytes: &self.bytes, endian: self.endian }
    }

    /// Returns the entry at an index. Returns `None` outside the file, where the loader would
    /// fault.
    pub(super) fn raw(&self, index: u32) -> Option<RawEntry> {
        let size = if self.layout.is_new { NEW_ENTRY } else { OLD_ENTRY };
        let offset = (index as usize).checked_mul(size)?.checked_add(self.layout.first)?;
        let reader = self.reader();
        Some(RawEntry {
            flags: reader.word(offset)?.cast_signed(),
            key: reader.word(offset + 4)?,
            value: reader.word(offset + 8)?,
            hwcap: if self.layout.is_new { reader.long(offset + 16)? } else { 0 },
        })
    }

    /// Returns the bytes from a string index to the end of the file, or `None` for an index outside
    /// the file (`_dl_cache_verify_ptr`).
    pub(super) fn tail(&self, index: u32) -> Option<&[u8]> {
        let offset = self.layout.strings.checked_add(index as usize)?;
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
            let offset = self.reader().word(first + index * 4).unwrap_or(u32::MAX);
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
        let rest = self.bytes.len().saturating_sub(self.layout.first);
        let fitting = rest / if self.layout.is_new { NEW_ENTRY } else { OLD_ENTRY };
        let count = self.layout.count.min(u32::try_from(fitting).unwrap_or(u32::MAX));
        (0..count).filter_map(|index| {
            let raw = self.raw(index)?;
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

/// Returns true if the file has the new format and its table fits in the file.
fn new_header(reader: &Reader<'_>) -> bool {
    let len = reader.bytes.len();
    len > NEW_HEADER
        && reader.has(0, NEW_MAGIC)
        && reader
            .word(NEW_COUNT)
            .is_some_and(|count| (len - NEW_HEADER) / NEW_ENTRY >= count as usize)
}

/// Checks for the old format. Returns `Some(None)` for a cache with the old table only,
/// `Some(Some(offset))` for a cache with a new header at that offset, and `None` for any other file.
fn embedded_header(reader: &Reader<'_>, alignment: usize) -> Option<Option<usize>> {
    let len = reader.bytes.len();
    if len <= OLD_HEADER || !reader.has(0, OLD_MAGIC) {
        return None;
    }
    let count = reader.word(OLD_HEADER - 4)? as usize;
    if (len - OLD_HEADER) / OLD_ENTRY < count {
        return None;
    }
    // `ALIGN_CACHE`: the new header follows the old table.
    let offset = (OLD_HEADER + count * OLD_ENTRY).next_multiple_of(alignment);
    let inside = offset + NEW_HEADER <= len && reader.has(offset, NEW_MAGIC);
    Some(inside.then_some(offset))
}

fn up_to_nul(bytes: &[u8]) -> &BStr {
    let end = bytes.find_byte(0).unwrap_or(bytes.len());
    BStr::new(&bytes[..end])
}
