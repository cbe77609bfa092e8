//! Tests the C reader of the loader patch for glibc
//! (`patches/glibc/common/0001/elf/dl-resolution.h`), compiled with the functions that it
//! calls replaced (`patches/glibc/tests/reader.c`).
//!
//! For any segments, it must read no byte outside of them, which the sanitizer checks. For a
//! descriptor, it must try the elements that becalm's own reader finds, up to the first one that is
//! not in the run path, and none if the note has an error or no mark.

#![no_main]

use std::ffi::{CStr, CString, c_char};

use becalm_core::elf::resolution_note::{Answer, COMPLETE, records};
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
    fn reader_tries(
        phdr: *const Phdr,
        phnum: usize,
        base: u64,
        run_path: *const c_char,
        name: *const c_char,
    ) -> *const c_char;
}

#[derive(Arbitrary, Debug)]
enum Input {
    /// The content of a segment, and headers that may be wrong about it.
    Segments { image: Vec<u8>, notes: Vec<(NoteHeader, u64)>, name: Vec<u8> },
    /// A descriptor in a well-formed note, with the mark or without.
    Descriptor { mark: bool, descriptor: Vec<u8>, run_path: Vec<u8>, name: Vec<u8> },
    /// A descriptor made of records, so that long ones occur.
    Records { records: Vec<(u8, Vec<Element>)>, name: u8, run_path: Vec<u8> },
}

/// An element of a list: a directory of the run path or another one, with slashes at its end.
#[derive(Arbitrary, Debug)]
struct Element {
    dir: u8,
    slashes: u8,
    is_file: bool,
    is_other_name: bool,
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

/// Returns the elements that the reader tries for `name` in an object that is loaded as `image`.
fn tries(image: &[u8], notes: &[Phdr], run_path: &[u8], name: &CStr) -> Vec<u8> {
    let size = image.len() as u64;
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
    let (base, run_path) = (image.as_ptr() as u64, string(run_path));
    // SAFETY: the one PT_LOAD has the size of `image`, and the result lives until the next call.
    unsafe {
        let tried = reader_tries(phdr.as_ptr(), phdr.len(), base, run_path.as_ptr(), name.as_ptr());
        CStr::from_ptr(tried).to_bytes().to_vec()
    }
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

/// Returns what the reader should try.
fn expected(descriptor: &[u8], run_path: &[u8], name: &[u8]) -> Vec<u8> {
    let records: Result<Vec<_>, _> = records(descriptor).collect();
    let Ok(records) = records else { return Vec::new() };
    let is_complete = descriptor.starts_with(COMPLETE);
    if !is_complete || records.iter().any(|record| record.answers.is_empty()) {
        return Vec::new();
    }
    let record = records.iter().find(|record| record.needed == name);
    let mut tried: Vec<Vec<u8>> = Vec::new();
    for answer in record.map(|record| record.answers.as_slice()).unwrap_or_default() {
        let (kind, text, dir) = match answer {
            Answer::Hint(dir) => (b"?", *dir, Some(dir.as_ref())),
            Answer::Exact(file) => (b"=", *file, file.strip_suffix(name)),
        };
        let is_dir = |dir: &&[u8]| kind == b"?" || dir.ends_with(b"/");
        let Some(dir) = dir.filter(is_dir) else { break };
        let is_element = |element: &[u8]| {
            let short = element.strip_suffix(b"/").filter(|rest| !rest.is_empty());
            short.unwrap_or(element) == trimmed(dir)
        };
        if !run_path.split(|&byte| byte == b':').any(is_element) {
            break;
        }
        tried.push([kind.as_slice(), text.as_ref()].concat());
    }
    tried.join(&b':')
}

/// Returns a directory without the slashes at its end. `/` stays.
fn trimmed(mut dir: &[u8]) -> &[u8] {
    while dir.len() > 1 && dir.ends_with(b"/") {
        dir = &dir[..dir.len() - 1];
    }
    dir
}

/// Compares the reader with becalm's own on a descriptor.
fn compare(descriptor: &[u8], run_path: &[u8], name: &[u8]) {
    let (run_path, name) = (string(run_path), string(name));
    // No lookup has such a name.
    if name.is_empty() || name.to_bytes().contains(&b'/') || name.to_bytes().contains(&b':') {
        return;
    }
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
    let is = tries(&image, &[header], run_path.to_bytes(), &name);
    assert_eq!(is, expected(descriptor, run_path.to_bytes(), name.to_bytes()));
}

/// A needed string.
fn name_of(number: u8) -> Vec<u8> {
    format!("lib{}.so", number % 4).into_bytes()
}

/// The text of an element.
fn text(element: &Element, needed: u8) -> Vec<u8> {
    let dirs: [&[u8]; 6] = [b"/a", b"/b", b"$ORIGIN", b"", b"/", b"/other"];
    let mut text = if element.is_file { vec![b'='] } else { vec![b'?'] };
    text.extend(dirs[usize::from(element.dir % 6)]);
    text.extend(std::iter::repeat_n(b'/', usize::from(element.slashes % 3)));
    if element.is_file {
        text.push(b'/');
        text.extend(name_of(needed + u8::from(element.is_other_name)));
    }
    text
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
            tries(&image, &headers, b"/a:/b", &string(&name));
        }
        Input::Descriptor { mark, descriptor, run_path, name } => {
            let mark = if mark { COMPLETE } else { b"" };
            compare(&[mark, &descriptor].concat(), &run_path, &name);
        }
        Input::Records { records, name, run_path } => {
            let mut descriptor = COMPLETE.to_vec();
            for (needed, list) in &records {
                let list: Vec<_> = list.iter().map(|element| text(element, needed % 4)).collect();
                descriptor.extend([name_of(*needed), list.join(&b':'), Vec::new()].join(&0));
            }
            descriptor.push(0);
            let run_path = [b"/a:$ORIGIN:/b/::/:".as_slice(), &run_path].concat();
            compare(&descriptor, &run_path, &name_of(name));
        }
    }
});
