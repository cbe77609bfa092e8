//! Any bytes as an ELF file: no panic, and the same view whether the bytes are in
//! memory or read range by range.

#![no_main]

use becalm_core::elf;
use libfuzzer_sys::fuzz_target;
use object::read::ReadCache;

fuzz_target!(|data: &[u8]| {
    let view = elf::parse(data);
    let cache = ReadCache::new(std::io::Cursor::new(data));
    assert_eq!(view, elf::parse(&cache));
    let Ok(view) = view else { return };
    assert_eq!(Some(view.ident), elf::ident(data));
    let _ = (view.is_program(), view.is_library(), view.needed().count());
    let _ = (view.ident.machine_name(), elf::dlopen_sonames(&view.notes.dlopen));
    if let Some(descriptor) = &view.notes.resolution {
        let _ = elf::resolution_note::records(descriptor).count();
    }
});
