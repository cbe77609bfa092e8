//! Values that the relocation types of each machine store, and reading of relocation tables.

use object::elf::{self, DT_PPC64_OPT};

use super::image::{Image, SLOTS, Sym};
use super::{bound, one};
use crate::elf::{Class, Endian};
use crate::symbols::slot::Slot;
use crate::symbols::{At, Definer, ObjectSymbols, Relative, RelocationKind};

fn slot(images: &[Image]) -> Slot {
    let bindings = bound(images);
    bindings.slot(0, &one(&bindings, 0, 0)).expect("a slot")
}

#[test]
fn x86_64_leaves_the_addend_of_got_entries_out() {
    let slot_of = |kind| {
        let program = Image::new("prog").symbol(Sym::undefined("f"));
        let program = program.relocate_with(kind, "f", Some(4));
        slot(&[program, Image::new("a").symbol(Sym::defined("f", 0x10))])
    };
    let at = |address| Slot::Address(At { object: 1, address });
    assert_eq!(slot_of(elf::R_X86_64_GLOB_DAT), at(0x10));
    assert_eq!(slot_of(elf::R_X86_64_JUMP_SLOT), at(0x10));
    assert_eq!(slot_of(elf::R_X86_64_64), at(0x14));
    assert_eq!(slot_of(elf::R_X86_64_PC32), Slot::Distance(At { object: 1, address: 0x14 }));
    assert_eq!(slot_of(elf::R_X86_64_SIZE64), Slot::Constant(12));
}

#[test]
fn rel_relocations_have_their_addend_in_the_slot() {
    let of = |kind, machine| {
        let program = Image::of("prog", Class::Elf32, Endian::Little, machine);
        let program = program.symbol(Sym::undefined("f")).relocate_with(kind, "f", None);
        let library = Image::of("a", Class::Elf32, Endian::Little, machine);
        slot(&[program.slot(0, 0x40), library.symbol(Sym::defined("f", 0x10))])
    };
    let at = |address| Slot::Address(At { object: 1, address });
    assert_eq!(of(elf::R_386_32, elf::EM_386), at(0x50));
    assert_eq!(of(elf::R_386_GLOB_DAT, elf::EM_386), at(0x10));
    assert_eq!(of(elf::R_ARM_ABS32, elf::EM_ARM), at(0x50));
    assert_eq!(of(elf::R_ARM_JUMP_SLOT, elf::EM_ARM), at(0x10));
}

#[test]
fn a_relative_relocation_of_rel_points_to_what_the_slot_holds() {
    let image = Image::of("prog", Class::Elf32, Endian::Little, elf::EM_386);
    let image = image.relocate_with(elf::R_386_RELATIVE, "", None).slot(0, 0x44);
    let symbols = ObjectSymbols::read(image.build().as_slice()).expect("its tables");
    assert_eq!(symbols.relocations.relative, [Relative { offset: SLOTS, addend: 0x44 }]);
}

#[test]
fn relr_has_addresses_and_bitmaps() {
    // An address, then a bitmap of the words behind: the first, the third.
    let image = Image::new("prog").relr(&[SLOTS, 0b1011]).slot(0, 7).slot(1, 8).slot(3, 9);
    let symbols = ObjectSymbols::read(image.build().as_slice()).expect("its tables");
    let expected = [(0, 7), (1, 8), (3, 9)]
        .map(|(slot, addend)| Relative { offset: SLOTS + slot * 8, addend });
    assert_eq!(symbols.relocations.relr, expected);
}

#[test]
fn riscv64_leaves_the_addend_of_an_undefined_weak_symbol_out() {
    let weak = |machine, kind| {
        let program = Image::of("prog", Class::Elf64, Endian::Little, machine)
            .symbol(Sym::undefined("f").binding(elf::STB_WEAK))
            .relocate_with(kind, "f", Some(4));
        slot(&[program])
    };
    assert_eq!(weak(elf::EM_RISCV, elf::R_RISCV_64), Slot::Constant(0));
    assert_eq!(weak(elf::EM_AARCH64, elf::R_AARCH64_ABS64), Slot::Constant(4));
}

#[test]
fn a_call_within_a_ppc64_object_goes_to_the_local_entry() {
    let of = |options| {
        let program = Image::of("prog", Class::Elf64, Endian::Little, elf::EM_PPC64)
            .symbol(Sym::defined("f", 0x10).other(3 << 5))
            .relocate(elf::R_PPC64_JMP_SLOT, "f")
            .relocate(elf::R_PPC64_ADDR64, "f")
            .tag(DT_PPC64_OPT, options);
        let bindings = bound(&[program]);
        (one(&bindings, 0, 0).value, one(&bindings, 0, 1).value)
    };
    assert_eq!(of(0), (0x18, 0x10));
    assert_eq!(of(2), (0x10, 0x10), "with several TOC pointers there is no local entry");
}

#[test]
fn s390x_has_sysv_hashes_of_eight_bytes_and_big_endian_tables() {
    let program = Image::of("prog", Class::Elf64, Endian::Big, elf::EM_S390)
        .symbol(Sym::undefined("f"))
        .relocate_with(elf::R_390_GLOB_DAT, "f", Some(2));
    let library = Image::of("a", Class::Elf64, Endian::Big, elf::EM_S390).sysv();
    let library = library.symbol(Sym::defined("g", 0x8)).symbol(Sym::defined("f", 0x10));
    assert_eq!(slot(&[program, library]), Slot::Address(At { object: 1, address: 0x12 }));
}

#[test]
fn tls_offsets_are_lowered_where_the_machine_does() {
    let of = |machine, kind| {
        let program = Image::of("prog", Class::Elf64, Endian::Little, machine)
            .symbol(Sym::undefined("t"))
            .relocate_with(kind, "t", Some(4));
        let tls = Sym::defined("t", 0x10).kind(elf::STT_TLS);
        let library = Image::of("a", Class::Elf64, Endian::Little, machine).symbol(tls);
        slot(&[program, library])
    };
    assert_eq!(of(elf::EM_X86_64, elf::R_X86_64_DTPOFF64), Slot::Constant(0x14));
    let lowered = Slot::Constant(0x14_u64.wrapping_sub(0x800));
    assert_eq!(of(elf::EM_RISCV, elf::R_RISCV_TLS_DTPREL64), lowered);
    let variable = At { object: 1, address: 0x14 };
    let offset = Slot::TlsOffset { variable, negated: false };
    assert_eq!(of(elf::EM_AARCH64, elf::R_AARCH64_TLS_TPREL), offset);
}

#[test]
fn irelative_relocations_come_last_and_have_a_resolver_of_their_own_object() {
    let program = Image::new("prog")
        .symbol(Sym::defined("f", 0x10))
        .relocate_with(elf::R_X86_64_IRELATIVE, "", Some(0x80))
        .relocate(elf::R_X86_64_GLOB_DAT, "f");
    let bindings = bound(&[program]);
    assert_eq!(one(&bindings, 0, 0).definer, Definer::Object(0));
    assert_eq!(one(&bindings, 0, 0).value, 0x10);
    let resolver = At { object: 0, address: 0x80 };
    let slot = bindings.slot(0, &one(&bindings, 0, 1));
    assert_eq!(slot, Some(Slot::Resolver { resolver, addend: 0 }));
    let kinds = bindings.objects[0].bindings.iter().map(|binding| binding.kind);
    assert_eq!(kinds.filter(|kind| *kind == RelocationKind::Irelative).count(), 1);
}
