//! A builder of loader caches for the tests of this module, in each format and byte order. It keeps
//! the order of the entries.

use object::{Endian as _, Endianness};

use crate::elf::Endian;
use crate::search::loader_cache::read::{EXTENSION_MAGIC, NEW_MAGIC};

/// One entry.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) soname: &'static str,
    pub(crate) path: &'static str,
    pub(crate) flags: i32,
    pub(crate) hwcap: u64,
}

/// Makes an entry without hwcaps.
pub(crate) fn row(soname: &'static str, path: &'static str, flags: i32) -> Row {
    Row { soname, path, flags, hwcap: 0 }
}

/// Makes an entry with this hwcap field.
pub(crate) fn with_hwcap(soname: &'static str, path: &'static str, flags: i32, hwcap: u64) -> Row {
    Row { soname, path, flags, hwcap }
}

/// Makes the hwcap field of a named entry.
pub(crate) fn named(index: u32, isa_level: u64) -> u64 {
    1 << 62 | isa_level << 32 | u64::from(index)
}

fn u32_bytes(endian: Endian, value: u32) -> [u8; 4] {
    Endianness::from(endian).write_u32(value)
}

fn u64_bytes(endian: Endian, value: u64) -> [u8; 8] {
    Endianness::from(endian).write_u64(value)
}

/// A string table that begins at the offset `base`.
struct Strings {
    base: usize,
    bytes: Vec<u8>,
}

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let offset = self.base + self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        offset as u32
    }
}

/// Makes a cache of the new format with a byte order flag, and an extension section if there are
/// `names`. `base` is its offset in the file.
fn new_part(endian: Endian, rows: &[Row], names: &[&str], base: usize) -> Vec<u8> {
    let mut strings = Strings { base: 48 + rows.len() * 24, bytes: Vec::new() };
    let mut table = Vec::new();
    for row in rows {
        table.extend(u32_bytes(endian, row.flags as u32));
        table.extend(u32_bytes(endian, strings.add(row.soname)));
        table.extend(u32_bytes(endian, strings.add(row.path)));
        table.extend(u32_bytes(endian, 0));
        table.extend(u64_bytes(endian, row.hwcap));
    }
    let indices: Vec<u32> = names.iter().map(|name| strings.add(name) + base as u32).collect();
    strings.bytes.resize(strings.bytes.len().next_multiple_of(8), 0);
    let extension = base + strings.base + strings.bytes.len();

    let mut out = NEW_MAGIC.to_vec();
    out.extend(u32_bytes(endian, rows.len() as u32));
    out.extend(u32_bytes(endian, strings.bytes.len() as u32));
    out.extend([if endian == Endian::Little { 2 } else { 3 }, 0, 0, 0]);
    out.extend(u32_bytes(endian, if names.is_empty() { 0 } else { extension as u32 }));
    out.extend([0; 12]);
    out.extend(table);
    out.extend(&strings.bytes);
    if !names.is_empty() {
        let data = extension + 8 + 16;
        for value in [EXTENSION_MAGIC, 1, 1, 0, data as u32, 4 * indices.len() as u32] {
            out.extend(u32_bytes(endian, value));
        }
        for index in indices {
            out.extend(u32_bytes(endian, index));
        }
    }
    out
}

/// Makes a cache of the new format.
pub(crate) fn new_format(endian: Endian, rows: &[Row], names: &[&str]) -> Vec<u8> {
    new_part(endian, rows, names, 0)
}

/// Makes a cache of the old format.
pub(crate) fn old_format(endian: Endian, rows: &[Row]) -> Vec<u8> {
    let mut strings = Strings { base: 0, bytes: Vec::new() };
    let mut out = b"ld.so-1.7.0\0".to_vec();
    out.extend(u32_bytes(endian, rows.len() as u32));
    for row in rows {
        out.extend(u32_bytes(endian, row.flags as u32));
        out.extend(u32_bytes(endian, strings.add(row.soname)));
        out.extend(u32_bytes(endian, strings.add(row.path)));
    }
    out.extend(strings.bytes);
    out
}

/// Makes a cache of the compat format: an old table of `old` zeroed entries, then a cache of the new
/// format at this alignment.
pub(crate) fn compat_format(
    endian: Endian,
    old: usize,
    rows: &[Row],
    names: &[&str],
    alignment: usize,
) -> Vec<u8> {
    let mut out = b"ld.so-1.7.0\0".to_vec();
    out.extend(u32_bytes(endian, old as u32));
    out.resize(16 + old * 12, 0);
    out.resize(out.len().next_multiple_of(alignment), 0);
    let base = out.len();
    out.extend(new_part(endian, rows, names, base));
    out
}
