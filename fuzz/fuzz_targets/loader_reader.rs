//! Tests the C reader of the loader patch
//! (`crates/lib/patches/glibc/common/0001/elf/dl-resolution.c`).
//!
//! For any segments, it must read no byte outside of them, which the sanitizer checks. For a
//! complete note, it must accept the note exactly if becalm's own reader finds no error, and its
//! lookup of a name must give the same result as a walk from the front. For any path, the package
//! root must be the one that its components give.

#![no_main]

use std::ffi::{CStr, CString, c_char};

use becalm_core::elf::resolution_note::{Answer, Record, records};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// `Elf64_Phdr`.
#[repr(C)]
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Phdr {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    paddr: u64,
    filesz: u64,
    memsz: u64,
    align: u64,
}

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_R: u32 = 4;

unsafe extern "C" {
    fn _dl_resolution_find(phdr: *const Phdr, phnum: usize, base: u64) -> *const c_char;
    fn _dl_resolution_lookup(note: *const c_char, name: *const c_char) -> *const c_char;
    fn _dl_resolution_root(
        path: *const c_char,
        length: usize,
        directory: bool,
        prefixes: *const c_char,
    ) -> usize;
}

#[derive(Arbitrary, Debug)]
enum Input {
    /// The content of a segment, and headers that may be wrong about it.
    Segments { image: Vec<u8>, notes: Vec<(NoteHeader, u64)>, name: Vec<u8> },
    /// A descriptor in a well-formed note.
    Descriptor { descriptor: Vec<u8>, name: Vec<u8> },
    /// A descriptor made of pairs, so that long ones occur.
    Pairs { pairs: Vec<(Vec<u8>, Vec<u8>)>, sort: bool, name: Vec<u8> },
    /// A path and the prefixes of stores.
    Root { path: Vec<u8>, directory: bool, prefixes: Vec<u8> },
}

/// A `PT_NOTE` with small numbers in about half of its values.
#[derive(Arbitrary, Debug)]
struct NoteHeader {
    vaddr: Value,
    filesz: Value,
    memsz: Value,
    align: Value,
}

#[derive(Arbitrary, Debug)]
enum Value {
    Small(u8),
    Any(u64),
    Whole,
}

impl Value {
    fn get(&self, whole: usize) -> u64 {
        match *self {
            Self::Small(value) => value.into(),
            Self::Any(value) => value,
            Self::Whole => whole as u64,
        }
    }
}

fn string(bytes: &[u8]) -> CString {
    CString::new(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).unwrap_or_default()
}

/// Searches for the note of an object that is loaded as `image`, and returns its first pair.
fn find(image: &[u8], notes: &[Phdr]) -> *const c_char {
    let size = image.len() as u64;
    // Loaded at an address whose lower half is in the headers, as in a real object.
    let start = image.as_ptr() as u64;
    let load = Phdr {
        kind: PT_LOAD,
        flags: PF_R,
        offset: 0,
        vaddr: 0,
        paddr: 0,
        filesz: size,
        memsz: size,
        align: 4096,
    };
    let mut phdr = vec![load];
    phdr.extend_from_slice(notes);
    // SAFETY: the one PT_LOAD has the size of `image`, which outlives the note.
    unsafe { _dl_resolution_find(phdr.as_ptr(), phdr.len(), start) }
}

/// Returns the list that the reader finds for `name`.
fn lookup(note: *const c_char, name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: `find` returned `note`, and its image still exists.
    let list = unsafe { _dl_resolution_lookup(note, name.as_ptr()) };
    // SAFETY: the reader found the end of each string of the note.
    (!list.is_null()).then(|| unsafe { CStr::from_ptr(list) }.to_bytes().to_vec())
}

/// An image with one resolution note in it.
fn image_with(descriptor: &[u8]) -> Vec<u8> {
    let mut image = Vec::new();
    for word in [6, u32::try_from(descriptor.len()).unwrap_or_default(), 0x63a8_6cb6] {
        image.extend_from_slice(&word.to_ne_bytes());
    }
    image.extend_from_slice(b"NixOS\0\0\0");
    image.extend_from_slice(descriptor);
    image.into_boxed_slice().into_vec()
}

/// The list of a record.
fn list(record: &Record) -> Vec<u8> {
    let element = |answer: &Answer| match answer {
        Answer::Exact(path) => [&b"="[..], path.as_ref()].concat(),
        Answer::Hint(dir) => [&b"?"[..], dir.as_ref()].concat(),
    };
    let elements: Vec<Vec<u8>> = record.answers.iter().map(element).collect();
    elements.join(&b':')
}

/// Compares the reader with becalm's own on a complete note.
fn compare(descriptor: &[u8], name: &[u8]) {
    let image = image_with(descriptor);
    let size = image.len() as u64;
    let header = Phdr {
        kind: PT_NOTE,
        flags: PF_R,
        offset: 0,
        vaddr: 0,
        paddr: 0,
        filesz: size,
        memsz: size,
        align: 4,
    };
    let note = find(&image, &[header]);
    let expected: Result<Vec<_>, _> = records(descriptor).collect();
    let Ok(expected) = expected else {
        assert!(note.is_null(), "believed a note that has an error");
        return;
    };
    assert!(!note.is_null(), "did not believe a sound note");
    let names = expected.iter().map(|record| record.needed.to_vec()).chain([name.to_vec()]);
    // The mark of a complete note is a record only for the C reader. Its name has a slash.
    for name in names.filter(|name| !name.contains(&b'/')) {
        let name = string(&name);
        let first = expected.iter().find(|record| **record.needed == *name.to_bytes());
        assert_eq!(lookup(note, &name), first.map(list));
    }
}

/// The package root by components.
fn root(path: &[u8], directory: bool, prefixes: &[u8]) -> usize {
    for prefix in prefixes.split(|&byte| byte == b':') {
        let end = prefix.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let prefix = &prefix[..end];
        if prefix.first() != Some(&b'/') {
            continue;
        }
        let Some(rest) = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(b"/")) else {
            continue;
        };
        let mut parts = rest.split(|&byte| byte == b'/');
        let package = parts.next().unwrap_or_default();
        if matches!(package, b"" | b"." | b"..") || (!directory && package.len() == rest.len()) {
            continue;
        }
        let mut depth = 0_i64;
        let leaves = parts.any(|part| {
            depth += match part {
                b"" | b"." => 0,
                b".." => -1,
                _ => 1,
            };
            depth < 0
        });
        if !leaves {
            return prefix.len() + 1 + package.len();
        }
    }
    0
}

fuzz_target!(|input: Input| {
    match input {
        Input::Segments { image, notes, name } => {
            let image = image.into_boxed_slice();
            let headers: Vec<Phdr> = notes
                .iter()
                .map(|(header, flags)| Phdr {
                    kind: PT_NOTE,
                    flags: *flags as u32,
                    offset: 0,
                    vaddr: header.vaddr.get(image.len()),
                    paddr: 0,
                    filesz: header.filesz.get(image.len()),
                    memsz: header.memsz.get(image.len()),
                    align: header.align.get(image.len()),
                })
                .collect();
            let note = find(&image, &headers);
            if !note.is_null() {
                lookup(note, &string(&name));
            }
        }
        Input::Descriptor { descriptor, name } => compare(&descriptor, &name),
        Input::Pairs { mut pairs, sort, name } => {
            if sort {
                pairs.sort();
            }
            let mut descriptor = Vec::new();
            for (needed, list) in &pairs {
                descriptor.extend_from_slice(string(needed).as_bytes_with_nul());
                descriptor.push(b"=?"[needed.len() % 2]);
                descriptor.extend_from_slice(string(list).as_bytes_with_nul());
            }
            descriptor.push(0);
            compare(&descriptor, &name);
        }
        Input::Root { path, directory, prefixes } => {
            let (path, prefixes) = (string(&path), string(&prefixes));
            // SAFETY: both are strings that end.
            let length = unsafe {
                let size = path.as_bytes().len();
                _dl_resolution_root(path.as_ptr(), size, directory, prefixes.as_ptr())
            };
            assert_eq!(length, root(path.to_bytes(), directory, prefixes.to_bytes()));
        }
    }
});
