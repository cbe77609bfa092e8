//! Tests of [`super::parse`] on images of [`builder`].

pub(crate) mod builder;

use bstr::BString;
use object::elf;
use object::read::{ReadCache, ReadRef};
use proptest::prelude::*;

use self::builder::{BASE, Builder, FORMATS, Field, Image};
use super::*;

fn view(image: &Image) -> ObjectView {
    parse(&image.bytes[..]).unwrap()
}

fn dynamic(image: &Image) -> Dynamic {
    view(image).dynamic.unwrap()
}

fn malformed(image: &Image) -> &'static str {
    match parse(&image.bytes[..]) {
        Err(ElfError::Malformed(reason)) => reason,
        other => panic!("not malformed: {other:?}"),
    }
}

fn text(value: &str) -> Option<BString> {
    Some(BString::from(value))
}

/// Makes an image with every part.
fn full(class: Class, endian: Endian) -> Image {
    Builder::new(class, endian)
        .header(3, 21, 0x0102_0304)
        .interpreter("/lib/ld.so.1")
        .needed("liba.so.1")
        .text(elf::DT_AUXILIARY, "libaux.so")
        .needed("libb.so.2")
        .text(elf::DT_FILTER, "libfilter.so")
        .text(elf::DT_SONAME, "libfull.so.3")
        .text(elf::DT_RPATH, "/r")
        .text(elf::DT_RUNPATH, "$ORIGIN/../lib:/s")
        .text(elf::DT_AUDIT, "audit.so")
        .text(elf::DT_DEPAUDIT, "depaudit.so")
        .number(elf::DT_FLAGS, DF_STATIC_TLS)
        .number(elf::DT_FLAGS_1, DF_1_NODEFLIB | DF_1_PIE)
        .tls(0x30, 16)
        .note(4, "GNU", 3, b"0123456789abcdefghij")
        .note(4, "NixOS", 0x63a8_6cb6, b"liba.so.1\0=/s/liba.so.1\0\0")
        .note(8, "FDO", 0x407c_0c0a, b"[{\"soname\":[\"x\"]}]\0")
        .note(4, "FDO", 0x407c_0c0a, b"[]")
        .build()
}

#[test]
fn every_field_is_read_in_every_class_and_byte_order() {
    for (class, endian) in FORMATS {
        let view = view(&full(class, endian));
        let ident = Ident {
            class,
            endian,
            os_abi: 0,
            abi_version: 0,
            e_type: 3,
            machine: 21,
            flags: 0x0102_0304,
        };
        assert_eq!(view.ident, ident);
        assert!(view.has_load);
        assert_eq!(view.interpreter, text("/lib/ld.so.1"));
        assert_eq!(view.tls, Some(Tls { size: 0x30, align: 16 }));
        assert_eq!(view.build_id.as_deref(), Some(&b"0123456789abcdefghij"[..]));
        assert_eq!(view.notes.resolution.as_deref(), Some(&b"liba.so.1\0=/s/liba.so.1\0\0"[..]));
        assert_eq!(view.notes.dlopen, ["[{\"soname\":[\"x\"]}]", "[]"]);
        let needed: Vec<_> = view.needed().collect();
        assert_eq!(needed, ["liba.so.1", "libb.so.2"]);
        let dynamic = view.dynamic.unwrap();
        let dependencies: Vec<_> =
            dynamic.dependencies.iter().map(|d| (d.kind, d.name.to_string())).collect();
        let expected = [
            (DependencyKind::Needed, "liba.so.1"),
            (DependencyKind::Auxiliary, "libaux.so"),
            (DependencyKind::Needed, "libb.so.2"),
            (DependencyKind::Filter, "libfilter.so"),
        ];
        assert_eq!(dependencies, expected.map(|(kind, name)| (kind, name.to_owned())));
        assert_eq!(dynamic.soname, text("libfull.so.3"));
        assert_eq!(dynamic.rpath, text("/r"));
        assert_eq!(dynamic.runpath, text("$ORIGIN/../lib:/s"));
        assert_eq!(dynamic.audit, text("audit.so"));
        assert_eq!(dynamic.depaudit, text("depaudit.so"));
        assert_eq!(dynamic.flags, DF_STATIC_TLS);
        assert_eq!(dynamic.flags_1, DF_1_NODEFLIB | DF_1_PIE);
    }
}

#[test]
fn cached_reads_give_the_same_view() {
    for (class, endian) in FORMATS {
        let image = full(class, endian);
        let cache = ReadCache::new(std::io::Cursor::new(&image.bytes));
        assert_eq!(parse(&cache).unwrap(), view(&image));
    }
}

/// Reads from a long file and checks that [`parse`] reads only small ranges.
#[test]
fn only_the_ranges_needed_are_read() {
    #[derive(Clone, Copy)]
    struct Counted<'a>(&'a [u8], &'a std::cell::Cell<u64>);
    impl<'a> ReadRef<'a> for Counted<'a> {
        fn len(self) -> Result<u64, ()> {
            Ok(self.0.len() as u64)
        }
        fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
            self.1.set(self.1.get().max(size));
            self.0.read_bytes_at(offset, size)
        }
        fn read_bytes_at_until(self, range: std::ops::Range<u64>, end: u8) -> Result<&'a [u8], ()> {
            self.1.set(self.1.get().max(range.end - range.start));
            self.0.read_bytes_at_until(range, end)
        }
    }
    let mut image = full(Class::Elf64, Endian::Little);
    image.bytes.resize(1 << 20, 0);
    let largest = std::cell::Cell::new(0);
    assert!(parse(Counted(&image.bytes, &largest)).is_ok());
    assert_eq!(largest.get(), 4096);
}

#[test]
fn the_last_of_a_repeated_tag_counts() {
    let image = Builder::elf64()
        .text(elf::DT_SONAME, "first")
        .text(elf::DT_RUNPATH, "/first")
        .text(elf::DT_RPATH, "/first")
        .number(elf::DT_FLAGS_1, 1)
        .text(elf::DT_SONAME, "last")
        .text(elf::DT_RUNPATH, "/last")
        .text(elf::DT_RPATH, "/last")
        .number(elf::DT_FLAGS_1, 2)
        .build();
    let dynamic = dynamic(&image);
    assert_eq!(dynamic.soname, text("last"));
    assert_eq!(dynamic.runpath, text("/last"));
    assert_eq!(dynamic.rpath, text("/last"));
    assert_eq!(dynamic.flags_1, 2);
}

#[test]
fn entries_after_dt_null_are_not_read() {
    let image = Builder::elf64().needed("a").number(elf::DT_NULL, 0).needed("b").build();
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn missing_dt_null_ends_with_the_segment() {
    for (class, endian) in FORMATS {
        let mut image = Builder::new(class, endian).needed("a").build();
        let entry = if class == Class::Elf64 { 16 } else { 8 };
        let size = (image.bytes.len() - entry) as u64;
        image.bytes.truncate(image.bytes.len() - entry);
        image.patch(elf::PT_LOAD, Field::FileSize, size);
        image.patch(elf::PT_LOAD, Field::MemorySize, size);
        assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["a"]);
    }
}

#[test]
fn strings_without_dt_strtab_are_malformed_and_flags_are_not() {
    let mut image = Builder::elf64().needed("a").build();
    image.patch_at(image.dynamic_at, 8, 0x6fff_fef5);
    assert!(malformed(&image).contains("DT_STRTAB"));
    let mut image = Builder::elf64().number(elf::DT_FLAGS, 8).build();
    image.patch_at(image.dynamic_at, 8, 0x6fff_fef5);
    assert_eq!(dynamic(&image).flags, 8);
}

#[test]
fn dt_strsz_does_not_bound_a_string() {
    let image = Builder::elf64().needed("liblong.so").number(elf::DT_STRSZ, 3).build();
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["liblong.so"]);
}

#[test]
fn string_longer_than_a_block_is_read_whole() {
    let long = "/directory".repeat(5000);
    let image = Builder::elf64().text(elf::DT_RUNPATH, &long).build();
    assert_eq!(dynamic(&image).runpath, text(&long));
    let cache = ReadCache::new(std::io::Cursor::new(&image.bytes));
    assert_eq!(parse(&cache).unwrap().dynamic.unwrap().runpath, text(&long));
}

/// If `p_vaddr` and `p_offset` disagree, the loader reads the memory.
#[test]
fn dynamic_is_found_by_address_before_offset() {
    let mut image = Builder::elf64().needed("a").build();
    image.patch(elf::PT_DYNAMIC, Field::Offset, 0);
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["a"]);
    let mut image = Builder::elf64().needed("a").build();
    image.patch(elf::PT_DYNAMIC, Field::Address, 1);
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["a"]);
}

/// A loader maps each `PT_LOAD` over those before it.
#[test]
fn the_last_load_that_covers_an_address_counts() {
    for (class, endian) in FORMATS {
        let mut image = Builder::new(class, endian).needed("under").tls(1, 1).build();
        let (over, address) = (image.bytes.len() as u64, BASE + image.strings_at as u64);
        image.bytes.extend_from_slice(b"\0over\0");
        for (field, value) in [
            (Field::Offset, over),
            (Field::Address, address),
            (Field::FileSize, 6),
            (Field::MemorySize, 6),
            (Field::Kind, 1),
        ] {
            image.patch(elf::PT_TLS, field, value);
        }
        assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["over"]);
    }
}

#[test]
fn zeros_after_a_segment_end_a_string_and_a_table() {
    let mut image = Builder::elf64().needed("last").build();
    // The string table moves to the end of the file, where no NUL follows it.
    let table = image.bytes.len() as u64;
    image.bytes.extend_from_slice(b"\0last");
    let size = image.bytes.len() as u64;
    image.patch(elf::PT_LOAD, Field::FileSize, size);
    image.patch_at(image.dynamic_at + 8, 8, BASE + table);
    assert_eq!(malformed(&image), "a dynamic string has no end");
    image.patch(elf::PT_LOAD, Field::MemorySize, size + 1);
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["last"]);
    image.patch(elf::PT_DYNAMIC, Field::Address, BASE + size);
    assert_eq!(dynamic(&image), Dynamic::default());
}

#[test]
fn string_offset_wraps_as_a_32_bit_address() {
    let mut image = Builder::new(Class::Elf32, Endian::Big).needed("a").build();
    let shifted = BASE + image.strings_at as u64 + 0x8000_0000;
    image.patch_at(image.dynamic_at + 4, 4, shifted);
    image.patch_at(image.dynamic_at + 12, 4, 0x8000_0001);
    assert_eq!(view(&image).needed().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn strings_outside_are_malformed() {
    let mut image = Builder::elf64().needed("a").build();
    image.patch_at(image.dynamic_at + 24, 8, u64::MAX / 2);
    assert_eq!(malformed(&image), "a dynamic string is outside its segments");
    let mut image = Builder::elf64().needed("a").build();
    image.patch(elf::PT_LOAD, Field::FileSize, 4096);
    image.patch(elf::PT_LOAD, Field::MemorySize, 4096);
    image.patch_at(image.dynamic_at + 24, 8, 3000);
    assert_eq!(malformed(&image), "a dynamic string is outside the file");
}

/// The budget is charged for a string each time an entry names it.
#[test]
fn repeated_long_strings_exhaust_the_budget_instead_of_memory() {
    let long = "x".repeat(60_000);
    let mut builder = Builder::elf64().text(elf::DT_SONAME, &long);
    for _ in 0..1000 {
        builder = builder.number(elf::DT_NEEDED, 1);
    }
    assert!(malformed(&builder.build()).contains("16 MiB"));
}

#[test]
fn sizes_of_4_gb_in_a_small_file_are_malformed() {
    for (class, endian) in FORMATS {
        for kind in [elf::PT_LOAD, elf::PT_DYNAMIC, elf::PT_INTERP, elf::PT_NOTE, elf::PT_TLS] {
            let mut image = full(class, endian);
            for field in [Field::FileSize, Field::MemorySize] {
                image.patch(kind, field, 0xffff_ffff);
            }
            let seen = view(&image);
            assert_eq!(seen.interpreter_fault.is_some(), kind == elf::PT_INTERP, "{kind:?}");
            image.patch(kind, Field::Offset, 0xffff_fff0);
            assert!(parse(&image.bytes[..]).is_ok() != (kind == elf::PT_LOAD));
        }
    }
}

#[test]
fn a_file_cut_after_its_dynamic_section_is_malformed() {
    for (class, endian) in FORMATS {
        let mut image = full(class, endian);
        let length = image.bytes.len() as u64 + 3 * 4096;
        image.bytes.resize(length as usize, 7);
        image.patch(elf::PT_LOAD, Field::FileSize, length);
        image.patch(elf::PT_LOAD, Field::MemorySize, length + 1);
        let whole = view(&image);
        // The kernel fills the last page with zeros.
        image.bytes.truncate(length as usize / 4096 * 4096 + 1);
        assert_eq!(view(&image), whole);
        image.bytes.pop();
        assert!(malformed(&image).contains("truncated"));
        // Without `.bss` the loader writes nothing there.
        image.patch(elf::PT_LOAD, Field::MemorySize, length);
        assert_eq!(view(&image), whole);
    }
}

#[test]
fn an_interpreter_that_the_kernel_rejects_is_a_fault_and_not_an_error() {
    let image = |size| {
        let mut image = Builder::elf64().needed("a").interpreter("/lib/ld.so").build();
        image.patch(elf::PT_INTERP, Field::FileSize, size);
        let view = view(&image);
        assert_eq!(view.needed().collect::<Vec<_>>(), ["a"]);
        assert_eq!(view.interpreter, None);
        assert!(!view.is_program() && view.is_library());
        view.interpreter_fault.expect("a fault")
    };
    assert_eq!(image(5), "its PT_INTERP does not end in a NUL");
    assert_eq!(image(4000), "its PT_INTERP is outside the file");
    for size in [0, 1, 4097] {
        assert_eq!(image(size), "its PT_INTERP is empty or longer than 4096 bytes");
    }
}

#[test]
fn program_header_table_is_checked() {
    let image = |at, value| {
        let mut image = Builder::elf64().needed("a").build();
        image.patch_at(at, 2, value);
        image
    };
    assert!(malformed(&image(54, 55)).contains("expected size"));
    assert!(malformed(&image(56, 0xffff)).contains("more program headers"));
    assert!(malformed(&image(56, 0xfffe)).contains("outside the file"));
    let none = view(&image(56, 0));
    assert!(!none.has_load && none.dynamic.is_none());
}

#[test]
fn objects_that_no_loader_maps_have_no_dynamic() {
    for e_type in [1, 4] {
        let mut image = Builder::elf64().header(e_type, 62, 0).needed("a").build();
        // A core file of many mappings has their number in section 0.
        image.patch_at(56, 2, 0xffff);
        let view = view(&image);
        assert_eq!((view.dynamic.clone(), view.has_load), (None, false));
        assert!(!view.is_program());
    }
}

#[test]
fn debug_file_without_dynamic_bytes_has_no_dynamic() {
    let mut image = Builder::elf64().needed("a").build();
    image.patch(elf::PT_DYNAMIC, Field::FileSize, 0);
    assert_eq!(view(&image).dynamic, None);
}

#[test]
fn the_last_tls_that_is_not_empty_counts() {
    assert_eq!(view(&Builder::elf64().tls(0, 1).build()).tls, None);
    let with_two = |last_size| {
        let mut image = Builder::elf64().interpreter("/ld").tls(last_size, 4).build();
        image.patch(elf::PT_INTERP, Field::MemorySize, 8);
        image.patch(elf::PT_INTERP, Field::Kind, 7);
        view(&image).tls.unwrap()
    };
    assert_eq!(with_two(0), Tls { size: 8, align: 1 });
    assert_eq!(with_two(2), Tls { size: 2, align: 4 });
}

#[test]
fn kinds_of_programs() {
    let is_program = |builder: Builder| view(&builder.build()).is_program();
    let library = Builder::elf64().needed("a");
    assert!(!is_program(library.clone()));
    assert!(is_program(library.clone().interpreter("/ld")));
    assert!(is_program(library.header(2, 62, 0).interpreter("/ld")));
    assert!(is_program(Builder::elf64().header(2, 62, 0)));
    let static_pie = Builder::elf64().number(elf::DT_FLAGS_1, DF_1_PIE);
    assert!(is_program(static_pie));
    assert!(!is_program(Builder::elf64().without_load()));
}

#[test]
fn an_object_is_a_library_unless_the_link_editor_marked_it_as_a_program() {
    let is_library = |builder: Builder| view(&builder.build()).is_library();
    let library = Builder::elf64().needed("a");
    assert!(is_library(library.clone()));
    assert!(is_library(library.clone().interpreter("/ld")));
    assert!(!is_library(library.clone().number(elf::DT_DEBUG, 0)));
    assert!(!is_library(library.clone().number(elf::DT_FLAGS_1, DF_1_PIE)));
    assert!(!is_library(library.header(2, 62, 0)));
    assert!(!is_library(Builder::elf64()));
}

#[test]
fn notes_of_other_owners_types_and_lengths_are_skipped() {
    let image = Builder::elf64()
        .note(4, "GNV", 3, b"x")
        .note(4, "GNU", 1, b"x")
        .note(4, "NixOS", 1, b"x")
        .note(4, "FDO", 3, b"x")
        .note(4, "GNU", 3, b"first")
        .note(4, "GNU", 3, b"second")
        .build();
    let view = view(&image);
    assert_eq!(view.build_id.as_deref(), Some(&b"first"[..]));
    assert_eq!(view.notes, Notes::default());
}

#[test]
fn notes_of_one_segment_follow_each_other_at_its_alignment() {
    for (class, endian) in FORMATS {
        for align in [4, 8] {
            let mut image = Builder::new(class, endian)
                .note(align, "FDO", 0x407c_0c0a, b"[1]")
                .note(align, "GNU", 3, b"12345")
                .note(align, "NixOS", 0x63a8_6cb6, b"\0")
                .build();
            let size = if align == 4 { 20 + 24 + 24 } else { 24 + 24 + 32 };
            image.patch(elf::PT_NOTE, Field::FileSize, size);
            // Only the first two headers: the PT_LOAD and the first PT_NOTE.
            image.patch_at(if class == Class::Elf64 { 56 } else { 44 }, 2, 2);
            let view = view(&image);
            assert_eq!(view.notes.dlopen, ["[1]"]);
            assert_eq!(view.build_id.as_deref(), Some(&b"12345"[..]));
            assert_eq!(view.notes.resolution.as_deref(), Some(&b"\0"[..]));
            if align == 4 {
                for other in [0, 1, 16] {
                    image.patch(elf::PT_NOTE, Field::Align, other);
                    assert_eq!(self::view(&image), view, "p_align {other} is taken for 4");
                }
            }
        }
    }
}

#[test]
fn hostile_note_lengths_end_the_segment() {
    for (at, value) in [(0, u64::from(u32::MAX)), (4, u64::from(u32::MAX)), (4, 21)] {
        let mut image = Builder::elf64().note(4, "GNU", 3, b"0123456789abcdefghij").build();
        let note_at = image.bytes.len() - 36;
        image.patch_at(note_at + at, 4, value);
        assert_eq!(view(&image).build_id, None);
    }
}

#[test]
fn not_elf_and_truncated_headers() {
    for bytes in [&b""[..], b"\x7f", b"\x7fEL", b"#!/bin/sh\n", b"MZ"] {
        assert_eq!(parse(bytes), Err(ElfError::NotElf));
    }
    assert!(matches!(parse(&b"\x7fELF"[..]), Err(ElfError::Malformed(_))));
    assert!(matches!(parse(&b"\x7fELF\x03\x01\x01"[..]), Err(ElfError::Malformed(_))));
    for (class, endian) in FORMATS {
        let image = full(class, endian);
        assert_eq!(ident(&image.bytes[..52]), Some(view(&image).ident));
        assert!(parse(&image.bytes[..51]).is_err());
    }
}

/// A truncated file never gives the view of the whole file, and never makes the parser panic.
#[test]
fn truncation_at_every_byte_is_malformed() {
    for (class, endian) in FORMATS {
        let image = full(class, endian);
        for len in 0..image.bytes.len() {
            // The DT_NULL of the dynamic section is at the end of the image.
            assert!(parse(&image.bytes[..len]).is_err(), "{class:?} {endian:?} at {len}");
        }
    }
}

proptest! {
    #[test]
    fn mutated_images_never_panic(
        format in 0..4usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let (class, endian) = FORMATS[format];
        let mut image = full(class, endian);
        for (index, byte) in changes {
            let at = index.index(image.bytes.len());
            image.bytes[at] = byte;
        }
        let _ = parse(&image.bytes[..]);
    }

    #[test]
    fn random_bytes_behind_a_header_never_panic(
        format in 0..4usize,
        tail in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let (class, endian) = FORMATS[format];
        let mut bytes = full(class, endian).bytes[..52].to_vec();
        bytes.extend_from_slice(&tail);
        let _ = parse(&bytes[..]);
    }
}
