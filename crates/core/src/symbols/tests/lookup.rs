//! `do_lookup_x`, `check_match`, `_dl_lookup_symbol_x`: which definition is found.

use object::elf::{
    DT_SYMBOLIC, R_X86_64_64, R_X86_64_COPY, R_X86_64_DTPMOD64, R_X86_64_GLOB_DAT,
    R_X86_64_JUMP_SLOT, STB_GNU_UNIQUE, STB_LOCAL, STB_WEAK, STT_FILE, STT_GNU_IFUNC, STT_NOTYPE,
    STT_OBJECT, STT_TLS, STV_HIDDEN, STV_INTERNAL, STV_PROTECTED,
};

use super::image::{Image, Sym};
use super::{GLIBC, bound, bound_by, definer, one};
use crate::facts::{GlibcVersion, Libc};
use crate::symbols::slot::Slot;
use crate::symbols::{At, BindOptions, Definer};

fn program() -> Image {
    Image::new("prog").symbol(Sym::undefined("f")).relocate(R_X86_64_GLOB_DAT, "f")
}

fn library(name: &str, value: u64) -> Image {
    Image::new(name).symbol(Sym::defined("f", value))
}

#[test]
fn the_first_definition_in_the_scope_is_found() {
    let images = [program(), Image::new("none"), library("a", 0x10), library("b", 0x20)];
    let bindings = bound(&images);
    let found = one(&bindings, 0, 0);
    assert_eq!((found.definer, found.value), (Definer::Object(2), 0x10));
    let slot = Slot::Address(At { object: 2, address: 0x10 });
    assert_eq!(bindings.slot(0, &found), Some(slot));
}

#[test]
fn the_programs_definition_interposes_that_of_a_library() {
    let library = library("a", 0x10).relocate(R_X86_64_JUMP_SLOT, "f");
    let images = [Image::new("prog").symbol(Sym::defined("f", 8)), library];
    assert_eq!(one(&bound(&images), 1, 0).definer, Definer::Object(0));
}

#[test]
fn both_hash_tables_find_the_same() {
    let with = |image: Image| {
        let image = image.symbol(Sym::defined("g", 0x40)).symbol(Sym::defined("h", 0x48));
        one(&bound(&[program(), image.symbol(Sym::defined("f", 0x30))]), 0, 0)
    };
    assert_eq!(with(Image::new("a")), with(Image::new("a").sysv()));
    assert_eq!(with(Image::new("a")).value, 0x30);
}

#[test]
fn an_object_with_dt_symbolic_is_searched_first_for_itself() {
    let own = library("a", 0x10).relocate(R_X86_64_GLOB_DAT, "f").tag(DT_SYMBOLIC, 0);
    let images = [Image::new("prog").symbol(Sym::defined("f", 8)), own.clone()];
    assert_eq!(one(&bound(&images), 1, 0).definer, Definer::Object(1));
    let musl = bound_by(&images, Libc::Musl, BindOptions::default());
    assert_eq!(one(&musl, 1, 0).definer, Definer::Object(0));
}

#[test]
fn a_reference_that_nothing_defines_is_undefined_or_missing() {
    assert_eq!(definer(&[program()]), Definer::Missing);
    let weak = Image::new("prog").symbol(Sym::undefined("f").binding(STB_WEAK));
    let images = [weak.relocate_with(R_X86_64_64, "f", Some(5))];
    let bindings = bound(&images);
    let found = one(&bindings, 0, 0);
    assert_eq!(found.definer, Definer::Undefined);
    assert_eq!(bindings.slot(0, &found), Some(Slot::Constant(5)));
    assert_eq!(bindings.undefined().count(), 0);
    assert_eq!(bound(&[program()]).undefined().count(), 1);
}

#[test]
fn a_weak_definition_wins_unless_ld_dynamic_weak_is_set() {
    let weak = Image::new("a").symbol(Sym::defined("f", 0x10).binding(STB_WEAK));
    let images = [program(), weak, library("b", 0x20)];
    assert_eq!(definer(&images), Definer::Object(1));
    let options = BindOptions { dynamic_weak: true, ..BindOptions::default() };
    assert_eq!(one(&bound_by(&images, GLIBC, options), 0, 0).definer, Definer::Object(2));
    let options = BindOptions { dynamic_weak: true, ..BindOptions::default() };
    let alone = bound_by(&images[..2], GLIBC, options);
    assert_eq!(one(&alone, 0, 0).definer, Definer::Object(1));
}

#[test]
fn hidden_and_local_definitions_are_passed_over() {
    for visibility in [STV_HIDDEN, STV_INTERNAL] {
        let hidden = Image::new("a").symbol(Sym::defined("f", 0x10).visibility(visibility));
        assert_eq!(definer(&[program(), hidden, library("b", 0x20)]), Definer::Object(2));
    }
    let local = Image::new("a").symbol(Sym::defined("f", 0x10).binding(STB_LOCAL));
    assert_eq!(definer(&[program(), local, library("b", 0x20)]), Definer::Object(2));
}

#[test]
fn a_local_or_hidden_reference_is_the_objects_own() {
    for symbol in
        [Sym::defined("f", 0x10).binding(STB_LOCAL), Sym::defined("f", 0x10).visibility(STV_HIDDEN)]
    {
        let own = Image::new("a").symbol(symbol).relocate(R_X86_64_64, "f");
        let images = [Image::new("prog").symbol(Sym::defined("f", 8)), own];
        let found = one(&bound(&images), 1, 0);
        assert_eq!((found.definer, found.value), (Definer::Object(1), 0x10));
    }
}

#[test]
fn a_protected_symbol_is_the_objects_own() {
    let symbol = Sym::defined("f", 0x10).visibility(STV_PROTECTED);
    for kind in [R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT] {
        let own = Image::new("a").symbol(symbol.clone()).relocate(kind, "f");
        let images = [Image::new("prog").symbol(Sym::defined("f", 8)), own];
        assert_eq!(one(&bound(&images), 1, 0).definer, Definer::Object(1));
    }
}

#[test]
fn the_address_of_a_protected_function_is_the_programs_plt_entry() {
    let symbol = Sym::defined("f", 0x10).visibility(STV_PROTECTED);
    let own = Image::new("a").symbol(symbol).relocate(R_X86_64_GLOB_DAT, "f");
    let program = Image::new("prog").symbol(Sym::undefined("f").with_value(0x400));
    let found = one(&bound(&[program, own]), 1, 0);
    assert_eq!((found.definer, found.value), (Definer::Object(0), 0x400));
}

#[test]
fn before_2_36_a_protected_datum_is_the_programs_copy() {
    let datum = Sym::defined("d", 0x10).kind(STT_OBJECT);
    let own = Image::new("a")
        .symbol(datum.clone().visibility(STV_PROTECTED))
        .relocate(R_X86_64_GLOB_DAT, "d");
    let program = Image::new("prog").symbol(datum).relocate(R_X86_64_COPY, "d");
    let definer = |minor| {
        let libc = Libc::Glibc(GlibcVersion { major: 2, minor });
        let bindings = bound_by(&[program.clone(), own.clone()], libc, BindOptions::default());
        one(&bindings, 1, 0).definer
    };
    assert_eq!(definer(35), Definer::Object(0));
    assert_eq!(definer(36), Definer::Object(1));
}

#[test]
fn a_plt_entry_of_the_program_is_an_address_but_no_function_to_call() {
    let program = Image::new("prog").symbol(Sym::undefined("f").with_value(0x400));
    let user = Image::new("a")
        .symbol(Sym::undefined("f"))
        .relocate(R_X86_64_64, "f")
        .relocate(R_X86_64_JUMP_SLOT, "f");
    let bindings = bound(&[program, user, library("b", 0x20)]);
    let (address, call) = (one(&bindings, 1, 0), one(&bindings, 1, 1));
    assert_eq!((address.definer, address.value), (Definer::Object(0), 0x400));
    assert_eq!((call.definer, call.value), (Definer::Object(2), 0x20));
}

#[test]
fn a_copy_is_made_of_a_librarys_datum() {
    let datum = |value| Sym::defined("d", value).kind(STT_OBJECT);
    let program = Image::new("prog").symbol(datum(0x40)).relocate(R_X86_64_COPY, "d");
    let library = Image::new("a").symbol(datum(0x10)).relocate(R_X86_64_GLOB_DAT, "d");
    let bindings = bound(&[program, library]);
    let copy = one(&bindings, 0, 0);
    assert_eq!(copy.definer, Definer::Object(1));
    let from = At { object: 1, address: 0x10 };
    assert_eq!(bindings.slot(0, &copy), Some(Slot::Copied { from, size: 8 }));
    assert_eq!(one(&bindings, 1, 0).definer, Definer::Object(0));
}

#[test]
fn only_code_and_data_are_definitions() {
    let file = Image::new("a").symbol(Sym::defined("f", 0x10).kind(STT_FILE));
    assert_eq!(definer(&[program(), file, library("b", 0x20)]), Definer::Object(2));
    let none = Image::new("a").symbol(Sym::defined("f", 0x10).kind(STT_NOTYPE));
    assert_eq!(definer(&[program(), none, library("b", 0x20)]), Definer::Object(1));
}

#[test]
fn a_value_of_zero_is_a_definition_only_of_absolute_and_thread_local_symbols() {
    assert_eq!(definer(&[program(), library("a", 0)]), Definer::Missing);
    let absolute = Image::new("a").symbol(Sym::defined("f", 0).absolute());
    assert_eq!(definer(&[program(), absolute]), Definer::Absolute(1));
    let local = Image::new("a").symbol(Sym::defined("t", 0).kind(STT_TLS));
    let user = Image::new("prog").symbol(Sym::undefined("t")).relocate(R_X86_64_DTPMOD64, "t");
    let bindings = bound(&[user, local]);
    let found = one(&bindings, 0, 0);
    assert_eq!(bindings.slot(0, &found), Some(Slot::TlsModule { object: 1 }));
}

#[test]
fn an_absolute_symbol_has_no_load_address() {
    let absolute = Image::new("a").symbol(Sym::defined("f", 0x1234).absolute());
    let bindings = bound(&[program(), absolute]);
    let found = one(&bindings, 0, 0);
    assert_eq!(bindings.slot(0, &found), Some(Slot::Constant(0x1234)));
}

#[test]
fn an_ifunc_has_a_resolver() {
    let ifunc = Image::new("a").symbol(Sym::defined("f", 0x10).kind(STT_GNU_IFUNC));
    let bindings = bound(&[program(), ifunc.clone()]);
    let found = one(&bindings, 0, 0);
    let resolver = At { object: 1, address: 0x10 };
    assert_eq!(bindings.slot(0, &found), Some(Slot::Resolver { resolver, addend: 0 }));
    // musl has no IFUNC: the symbol is not found.
    let musl = bound_by(&[program(), ifunc], Libc::Musl, BindOptions::default());
    assert_eq!(one(&musl, 0, 0).definer, Definer::Missing);
}

#[test]
fn a_unique_symbol_has_one_definition_whatever_the_scope() {
    let unique = |value| Sym::defined("u", value).kind(STT_OBJECT).binding(STB_GNU_UNIQUE);
    let first = Image::new("a").symbol(unique(0x10));
    // Relocated before the program, so its own definition is the first that is found.
    let own =
        Image::new("b").symbol(unique(0x20)).relocate(R_X86_64_GLOB_DAT, "u").tag(DT_SYMBOLIC, 0);
    let user = Image::new("prog").symbol(Sym::undefined("u")).relocate(R_X86_64_GLOB_DAT, "u");
    let bindings = bound(&[user, first, own]);
    assert_eq!(one(&bindings, 2, 0).definer, Definer::Object(2));
    assert_eq!(one(&bindings, 0, 0).definer, Definer::Object(2));
    assert!(one(&bindings, 0, 0).unique);
}

#[test]
fn the_copy_of_a_unique_symbol_is_the_one_definition() {
    let unique = |value| Sym::defined("u", value).kind(STT_OBJECT).binding(STB_GNU_UNIQUE);
    let program = Image::new("prog")
        .symbol(Sym::defined("u", 0x40).kind(STT_OBJECT))
        .relocate(R_X86_64_COPY, "u")
        .relocate(R_X86_64_GLOB_DAT, "u");
    let bindings = bound(&[program, Image::new("a").symbol(unique(0x10))]);
    assert_eq!(one(&bindings, 0, 0).definer, Definer::Object(1));
    assert_eq!(one(&bindings, 0, 1).definer, Definer::Object(0));
}
