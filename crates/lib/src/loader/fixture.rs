//! The smallest objects that a loader resolves: bytes for any class and byte order.
//!
//! One `PT_LOAD` over the whole file (gABI, "Program Header"), writable because loaders before 2.35
//! write into the dynamic section; a `PT_DYNAMIC`; a `PT_NOTE` if there is a note.

use becalm_core::elf::resolution_note::COMPLETE;
use becalm_core::elf::{Class, Endian, Ident};
use becalm_core::search::loader_cache::{self, NewEntry};
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB,
    PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, ProgramType,
};

/// Larger than the pages of any machine.
const ALIGN: u64 = 0x1_0000;
/// The type of a resolution note.
const NOTE_TYPE: u64 = 0x63a8_6cb6;
/// Offset of the first of the parts, behind the headers.
const PARTS: usize = 0x200;

/// Content of an object.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    /// Its soname.
    pub soname: Option<&'a str>,
    /// Its one needed string.
    pub needed: Option<&'a str>,
    /// Its `DT_RUNPATH`.
    pub runpath: Option<&'a str>,
    /// The one pair of its note, after the mark of a complete one.
    pub note: Option<(&'a str, &'a str)>,
    /// Its interpreter; present in programs only.
    pub interpreter: Option<&'a str>,
}

/// Writes numbers as a target reads them.
struct Out<'a> {
    target: &'a Ident,
    bytes: Vec<u8>,
}

impl Out<'_> {
    /// Writes numbers of `size` bytes each.
    fn numbers(&mut self, size: usize, values: &[u64]) {
        for value in values {
            match self.target.endian {
                Endian::Little => self.bytes.extend(&value.to_le_bytes()[..size]),
                Endian::Big => self.bytes.extend(&value.to_be_bytes()[8 - size..]),
            }
        }
    }

    /// Writes numbers of the size of an address.
    fn addresses(&mut self, values: &[u64]) {
        self.numbers(if self.target.class == Class::Elf64 { 8 } else { 4 }, values);
    }

    fn strings(&mut self, values: &[&str]) {
        for value in values {
            self.bytes.extend(value.bytes().chain([0]));
        }
    }

    fn pad(&mut self, multiple: usize) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(multiple), 0);
        self.bytes.len() as u64
    }

    fn header(&mut self, count: u64) {
        let Ident { class, endian, machine, flags, .. } = *self.target;
        self.bytes.extend([0x7f, b'E', b'L', b'F', class as u8, endian as u8, 1]);
        self.pad(16);
        self.numbers(2, &[3, machine.into()]);
        self.numbers(4, &[1]);
        let (size, entry) = if class == Class::Elf64 { (64, 56) } else { (52, 32) };
        self.addresses(&[0, size, 0]);
        self.numbers(4, &[flags.into()]);
        self.numbers(2, &[size, entry, count, 0, 0, 0]);
    }

    fn segment(&mut self, (kind, at, size, align): (ProgramType, u64, u64, u64)) {
        let flags = if matches!(kind, PT_NOTE | PT_INTERP) { 4 } else { 6 };
        if self.target.class == Class::Elf64 {
            self.numbers(4, &[kind.0.into(), flags]);
            self.addresses(&[at, at, at, size, size, align]);
        } else {
            self.numbers(4, &[kind.0.into(), at, at, at, size, size, flags, align]);
        }
    }
}

/// Returns the bytes of an object for the loader that `target` identifies.
#[must_use]
pub fn object(target: &Ident, object: &Object<'_>) -> Vec<u8> {
    let mut parts = Out { target, bytes: vec![0; PARTS] };
    let strings = parts.bytes.len() as u64;
    let mut entries = Vec::new();
    parts.bytes.push(0);
    for (tag, text) in
        [(DT_SONAME, object.soname), (DT_NEEDED, object.needed), (DT_RUNPATH, object.runpath)]
    {
        if let Some(text) = text {
            entries.push((tag, parts.bytes.len() as u64 - strings));
            parts.strings(&[text]);
        }
    }
    let strings_size = parts.bytes.len() as u64 - strings;
    let symbols = parts.pad(8);
    parts.bytes.resize(parts.bytes.len() + 24, 0);
    let note = parts.pad(8);
    if let Some((needed, list)) = object.note {
        let size = COMPLETE.len() + needed.len() + list.len() + 3;
        parts.numbers(4, &[6, size as u64, NOTE_TYPE]);
        parts.strings(&["NixOS", "", ""]);
        parts.bytes.extend(COMPLETE);
        parts.strings(&[needed, list, ""]);
    }
    let note_size = parts.pad(4) - note;
    let interpreter = parts.pad(8);
    parts.strings(object.interpreter.as_slice());
    let dynamic = parts.pad(8);
    let symbol_size = if target.class == Class::Elf64 { 24 } else { 16 };
    entries.extend([(DT_STRTAB, strings), (DT_SYMTAB, symbols), (DT_STRSZ, strings_size)]);
    entries.extend([(DT_SYMENT, symbol_size), (DT_NULL, 0)]);
    for (tag, value) in entries {
        parts.addresses(&[tag.0.cast_unsigned(), value]);
    }
    let size = parts.bytes.len() as u64;

    let segments = [
        // The interpreter precedes the loadable segments (gABI, "Program Header").
        object.interpreter.map(|path| (PT_INTERP, interpreter, path.len() as u64 + 1, 1)),
        Some((PT_LOAD, 0, size, ALIGN)),
        Some((PT_DYNAMIC, dynamic, size - dynamic, 8)),
        object.note.map(|_| (PT_NOTE, note, note_size, 4)),
    ];
    let mut head = Out { target, bytes: Vec::new() };
    head.header(segments.iter().flatten().count() as u64);
    segments.into_iter().flatten().for_each(|segment| head.segment(segment));
    parts.bytes[..head.bytes.len()].copy_from_slice(&head.bytes);
    parts.bytes
}

/// Returns a loader cache that has `path` for `soname`, with the flags of every ABI; a loader uses
/// the entry of its own.
pub(crate) fn cache(target: &Ident, soname: &str, path: &str) -> Option<Vec<u8>> {
    let entry = |abi| NewEntry {
        soname: soname.into(),
        path: path.into(),
        flags: abi << 8 | 3,
        hwcaps_name: None,
    };
    loader_cache::write(target, (0..0x20).map(entry).collect(), "becalm")
}

#[cfg(test)]
mod tests {
    use becalm_core::elf;

    use super::*;

    fn targets() -> Vec<Ident> {
        let make = |class, endian, machine| {
            let base = std::fs::read("/proc/self/exe").expect("this program");
            Ident { class, endian, machine, ..elf::ident(&base).expect("an object") }
        };
        vec![make(Class::Elf64, Endian::Little, 62), make(Class::Elf32, Endian::Big, 8)]
    }

    #[test]
    fn what_is_written_is_read_again_in_both_classes_and_byte_orders() {
        for target in targets() {
            let bytes = object(
                &target,
                &Object {
                    soname: Some("liba.so"),
                    needed: Some("libb.so"),
                    runpath: Some("/r"),
                    note: Some(("libb.so", "=/b")),
                    interpreter: Some("/ld.so"),
                },
            );
            let view = elf::parse(bytes.as_slice()).expect("an object");
            let dynamic = view.dynamic.expect("dynamic");
            assert_eq!(dynamic.soname.expect("soname"), "liba.so");
            assert_eq!(dynamic.runpath.expect("run path"), "/r");
            let note = view.notes.resolution.expect("note");
            assert_eq!(note, b"/complete/1\0?\0libb.so\0=/b\0\0");
            assert_eq!(view.interpreter.expect("a program"), "/ld.so");
        }
    }
}
