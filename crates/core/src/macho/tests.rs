//! Tests on built images.

use proptest::prelude::*;

use super::*;

const LC_LOAD_DYLIB: u32 = 0xc;
const LC_ID_DYLIB: u32 = 0xd;
const LC_RPATH: u32 = 0x8000_001c;
const X86_64: (u32, u32) = (0x0100_0007, 3);
const ARM64: (u32, u32) = (0x0100_000c, 0);

/// Makes a thin image with these load commands, each a number and a string.
fn thin(wide: bool, big: bool, cpu: (u32, u32), commands: &[(u32, &str)]) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = Vec::new();
    for (number, text) in commands {
        // The string follows the fixed part, which has 24 bytes for a dylib and 12 for an rpath.
        let fixed = if *number == LC_RPATH { 12 } else { 24 };
        let size = (fixed + text.len() + 1).next_multiple_of(8);
        let mut command = Vec::new();
        for value in [*number, size as u32, fixed as u32, 2, 0x10000, 0x10000] {
            command.extend_from_slice(&word(value));
        }
        command.truncate(fixed);
        command.extend_from_slice(text.as_bytes());
        command.resize(size, 0);
        body.extend_from_slice(&command);
    }
    let magic = if wide { 0xfeed_facf } else { 0xfeed_face };
    let mut bytes = Vec::new();
    for value in [magic, cpu.0, cpu.1, 2, commands.len() as u32, body.len() as u32, 0] {
        bytes.extend_from_slice(&word(value));
    }
    if wide {
        bytes.extend_from_slice(&word(0));
    }
    bytes.extend_from_slice(&body);
    bytes
}

/// Makes a fat file with these slices.
fn fat(slices: &[Vec<u8>]) -> Vec<u8> {
    let mut at = 8 + 20 * slices.len();
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&0xcafe_babe_u32.to_be_bytes());
    bytes.extend_from_slice(&(slices.len() as u32).to_be_bytes());
    for slice in slices {
        for value in [7, 3, at as u32, slice.len() as u32, 0] {
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        at += slice.len();
    }
    bytes.extend(slices.concat());
    bytes
}

fn sample(wide: bool, big: bool) -> Vec<u8> {
    let commands = [
        (LC_ID_DYLIB, "@rpath/libself.dylib"),
        (LC_LOAD_DYLIB, "/usr/lib/libSystem.B.dylib"),
        (0x8000_0018, "@rpath/libweak.dylib"),
        (0x8000_001f, "@rpath/libre.dylib"),
        (0x8000_0023, "@loader_path/libup.dylib"),
        (0x20, "@executable_path/liblazy.dylib"),
        (LC_LOAD_DYLIB, "librelative.dylib"),
        (LC_RPATH, "@loader_path/../lib"),
        (LC_RPATH, "/opt/lib"),
        (LC_RPATH, "/opt/more"),
    ];
    thin(wide, big, X86_64, &commands)
}

#[test]
fn thin_images_of_every_class_and_byte_order() {
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let bytes = sample(wide, big);
        assert!(is_macho(&bytes));
        let file = parse(&bytes[..]).unwrap();
        let [slice] = &file[..] else { panic!("{file:?}") };
        assert_eq!(slice.cpu, "x86_64");
        assert_eq!(slice.dylibs.len(), 6);
        assert_eq!(slice.dylibs[1], "@rpath/libweak.dylib");
        assert_eq!(slice.rpaths, ["@loader_path/../lib", "/opt/lib", "/opt/more"]);
        assert_eq!(slice.dyld_candidates(), 4 + 2 * 3);
    }
}

#[test]
fn fat_file_gives_its_images_and_skips_archives() {
    let one = thin(true, false, X86_64, &[(LC_LOAD_DYLIB, "@rpath/a"), (LC_RPATH, "/r")]);
    let two = thin(true, false, ARM64, &[(LC_LOAD_DYLIB, "/a")]);
    let bytes = fat(&[one, b"!<arch>\nmember".to_vec(), two]);
    assert!(is_macho(&bytes));
    let file = parse(&bytes[..]).unwrap();
    let cpus: Vec<_> = file.iter().map(|slice| slice.cpu).collect();
    assert_eq!(cpus, ["x86_64", "arm64"]);
    assert_eq!(file[0].dyld_candidates(), 1);
    assert_eq!(file[1].rpaths.len(), 0);
}

/// The command is `LC_LOAD_WEAK_DYLIB` with the marker of `dylib_use_command`.
#[test]
fn the_newer_command_has_its_name_behind_the_flags() {
    let mut bytes = thin(true, false, ARM64, &[(0x8000_0018, "    /a.dylib")]);
    bytes[32 + 8..32 + 12].copy_from_slice(&28_u32.to_le_bytes());
    bytes[32 + 12..32 + 16].copy_from_slice(&0x1a74_1800_u32.to_le_bytes());
    bytes[32 + 24..32 + 28].copy_from_slice(&8_u32.to_le_bytes());
    assert_eq!(parse(&bytes[..]).unwrap()[0].dylibs, ["/a.dylib"]);
}

#[test]
fn java_class_and_other_files_are_not_mach_o() {
    let java = [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 52];
    for bytes in [&java[..], b"", b"\xfe\xed\xfa\xcf", b"\x7fELF\x02\x01\x01\0", b"#!/bin/sh\n"] {
        assert!(!is_macho(bytes));
        assert_eq!(parse(bytes), Err(MachOError::NotMachO));
    }
}

#[test]
fn sizes_beyond_the_file_are_malformed() {
    let mut bytes = sample(true, false);
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(parse(&bytes[..]), Err(MachOError::Malformed("its load commands are too long")));
    let mut bytes = sample(true, false);
    bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(parse(&bytes[..]), Err(MachOError::Malformed("a load command does not fit")));
    let mut bytes = fat(&[sample(true, false)]);
    bytes[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(parse(&bytes[..]), Err(MachOError::Malformed("a slice is outside the file")));
}

#[test]
fn truncation_at_every_byte_is_an_error() {
    for bytes in [sample(true, false), sample(false, true), fat(&[sample(true, true)])] {
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_err(), "at {len}");
        }
    }
}

proptest! {
    #[test]
    fn mutated_images_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        wide: bool,
        universal: bool,
    ) {
        let mut bytes = sample(wide, false);
        if universal {
            bytes = fat(&[bytes.clone(), bytes]);
        }
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(file) = parse(&bytes[..]) {
            for slice in file {
                let _ = slice.dyld_candidates();
            }
        }
    }
}
