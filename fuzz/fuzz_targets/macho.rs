//! Any bytes as a Mach-O file: no panic, and no slice without a Mach-O header.

#![no_main]

use becalm_core::macho;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let parsed = macho::parse(data);
    assert_eq!(matches!(parsed, Err(macho::MachOError::NotMachO)), !macho::is_macho(data));
    let Ok(file) = parsed else { return };
    for slice in file {
        let most = slice.dylibs.len() * slice.rpaths.len().max(1);
        assert!(slice.dyld_candidates() <= most);
    }
});
