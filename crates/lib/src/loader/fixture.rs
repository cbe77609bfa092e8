//! The smallest objects that a loader resolves: bytes for any class and byte order.
//!
//! One `PT_LOAD` over the whole file (gABI, "Program Header"), writable because loaders before 2.35
//! write into the dynamic section; a `PT_DYNAMIC`; a `PT_NOTE` if there is a note.

use anyhow::Result;
use becalm_core::elf::resolution_note::COMPLETE;
use becalm_core::elf::{Class, Ident};
use becalm_core::search::loader_cache::{self, NewEntry};
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB, ET_DYN,
    FileFlags, Machine, PF_R, PF_W, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, ProgramFlags,
    ProgramType,
};
use object::write::elf::{FileHeader, ProgramHeader, Writer};

/// Larger than the pages of any machine.
const ALIGN: u64 = 0x1_0000;

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

/// Returns the bytes of an object for the loader that `target` identifies.
///
/// # Errors
/// Returns an error if the strings are too long for an object of its class.
pub fn object(target: &Ident, object: &Object<'_>) -> Result<Vec<u8>> {
    let (mut bytes, is_64) = (Vec::new(), target.class == Class::Elf64);
    let mut out = Writer::new_single_phase(target.endian.into(), is_64, &mut bytes);
    let names =
        [(DT_SONAME, object.soname), (DT_NEEDED, object.needed), (DT_RUNPATH, object.runpath)];
    let names = names.into_iter().filter_map(|(tag, name)| Some((tag, name?.as_bytes())));
    let names: Vec<_> = names.map(|(tag, name)| (tag, out.add_dynamic_string(name))).collect();
    out.write_file_header(&FileHeader {
        e_type: ET_DYN,
        e_machine: Machine(target.machine),
        e_flags: FileFlags(target.flags),
        ..FileHeader::default()
    })?;
    let count = 2 + object.note.iter().len() + object.interpreter.iter().len();
    out.write_program_headers_placeholder(count as u32);
    let mut segments = Vec::new();
    // The interpreter precedes the loadable segments (gABI, "Program Header").
    if let Some(path) = object.interpreter {
        segments.push(segment(PT_INTERP, PF_R, out.offset(), path.len() as u64 + 1, 1));
        out.write(&[path.as_bytes(), b"\0"].concat());
    }
    let load = segments.len();
    if let Some((needed, list)) = object.note {
        let records = [needed, list, ""].map(|text| text.to_owned() + "\0").concat();
        let note = becalm_rewrite::note(target.endian, &[COMPLETE, records.as_bytes()].concat())?;
        segments.push(segment(PT_NOTE, PF_R, out.write_align(8), note.len() as u64, 4));
        out.write(&note);
    }
    let symbols = out.write_null_dynamic_symbol();
    let (strings, strings_size) = out.write_dynstr()?;
    let dynamic = out.write_align_dynamic();
    for (tag, name) in names {
        out.write_dynamic_string(tag, name)?;
    }
    let symbol_size = if is_64 { 24 } else { 16 };
    for (tag, value) in [
        (DT_STRTAB, strings),
        (DT_SYMTAB, symbols),
        (DT_STRSZ, strings_size.into()),
        (DT_SYMENT, symbol_size),
        (DT_NULL, 0),
    ] {
        out.write_dynamic(tag, value)?;
    }
    let size = out.offset();
    segments.insert(load, segment(PT_LOAD, PF_R | PF_W, 0, size, ALIGN));
    segments.insert(load + 1, segment(PT_DYNAMIC, PF_R | PF_W, dynamic, size - dynamic, 8));
    let mut head = Vec::new();
    out.write_headers_to(&mut head, &segments)?;
    bytes[..head.len()].copy_from_slice(&head);
    Ok(bytes)
}

fn segment(
    p_type: ProgramType,
    p_flags: ProgramFlags,
    at: u64,
    size: u64,
    p_align: u64,
) -> ProgramHeader {
    let (p_offset, p_vaddr, p_paddr, p_filesz, p_memsz) = (at, at, at, size, size);
    ProgramHeader { p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align }
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
    use becalm_core::elf::{self, Endian};

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
            )
            .expect("an object");
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
