//! `check_match` with versions, `_dl_check_map_versions`.

use object::elf::R_X86_64_GLOB_DAT;

use super::image::{Image, Sym};
use super::{bound, bound_by, definer, one};
use crate::facts::Libc;
use crate::symbols::{BindOptions, Definer};

/// A program whose reference has the version `V2` of `a`.
fn versioned() -> Image {
    Image::new("prog")
        .needs(2, "a", "V2", false)
        .symbol(Sym::undefined("f").version(2))
        .relocate(R_X86_64_GLOB_DAT, "f")
}

fn plain() -> Image {
    Image::new("prog").symbol(Sym::undefined("f")).relocate(R_X86_64_GLOB_DAT, "f")
}

/// A library with the base version and two more.
fn library() -> Image {
    Image::new("a").defines(1, "a", true).defines(2, "V1", false).defines(3, "V2", false)
}

fn value(images: &[Image]) -> u64 {
    one(&bound(images), 0, 0).value
}

#[test]
fn a_versioned_reference_takes_its_version() {
    let both = library()
        .symbol(Sym::defined("f", 0x10).hidden_version(2))
        .symbol(Sym::defined("f", 0x20).version(3));
    assert_eq!(value(&[versioned(), both.clone()]), 0x20);
    let hidden = library().symbol(Sym::defined("f", 0x30).hidden_version(3));
    assert_eq!(value(&[versioned(), hidden]), 0x30);
    let other = library().symbol(Sym::defined("f", 0x10).version(2));
    assert_eq!(definer(&[versioned(), other]), Definer::Missing);
}

#[test]
fn a_versioned_reference_takes_the_base_version_or_a_library_without_versions() {
    let base = library().symbol(Sym::defined("f", 0x10).version(1));
    assert_eq!(value(&[versioned(), base]), 0x10);
    let hidden = library().symbol(Sym::defined("f", 0x10).hidden_version(1));
    assert_eq!(definer(&[versioned(), hidden]), Definer::Missing);
    let bare = Image::new("a").symbol(Sym::defined("f", 0x20));
    assert_eq!(value(&[versioned(), bare]), 0x20);
}

#[test]
fn a_hidden_version_of_the_reference_takes_no_base_version() {
    let program = Image::new("prog")
        .needs(0x8002, "a", "V2", false)
        .symbol(Sym::undefined("f").version(2))
        .relocate(R_X86_64_GLOB_DAT, "f");
    let base = library().symbol(Sym::defined("f", 0x10).version(1));
    assert_eq!(definer(&[program, base]), Definer::Missing);
}

#[test]
fn a_reference_without_version_takes_the_base_or_the_oldest_version() {
    let base = library().symbol(Sym::defined("f", 0x10).version(1));
    assert_eq!(value(&[plain(), base]), 0x10);
    // The oldest one counts though it is hidden.
    let oldest = library()
        .symbol(Sym::defined("f", 0x20).hidden_version(2))
        .symbol(Sym::defined("f", 0x30).version(3));
    assert_eq!(value(&[plain(), oldest]), 0x20);
}

#[test]
fn a_reference_without_version_takes_the_only_default_version() {
    let only = library().symbol(Sym::defined("f", 0x30).version(3));
    assert_eq!(value(&[plain(), only.clone()]), 0x30);
    let two = only.defines(4, "V3", false).symbol(Sym::defined("f", 0x40).version(4));
    assert_eq!(definer(&[plain(), two]), Definer::Missing);
    let hidden = library().symbol(Sym::defined("f", 0x30).hidden_version(3));
    assert_eq!(definer(&[plain(), hidden]), Definer::Missing);
}

#[test]
fn musl_sees_no_versions_but_hidden_ones() {
    let hidden = library()
        .symbol(Sym::defined("f", 0x10).hidden_version(2))
        .symbol(Sym::defined("f", 0x20).version(3));
    for program in [plain(), versioned()] {
        let bindings = bound_by(&[program, hidden.clone()], Libc::Musl, BindOptions::default());
        assert_eq!(one(&bindings, 0, 0).value, 0x20);
    }
}

#[test]
fn a_version_that_the_library_lacks_is_missing() {
    let needs = |version, weak| Image::new("prog").needs(2, "a", version, weak);
    let missing = |program| bound(&[program, library()]).missing_versions;
    assert_eq!(missing(needs("V2", false)), []);
    let found = missing(needs("V9", false));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].object.as_str(), found[0].library.as_str()), ("prog", "a"));
    assert!(!found[0].weak);
    assert_eq!(found[0].version, "V9");
    assert!(missing(needs("V9", true))[0].weak);
    let bare = bound(&[needs("V9", false), Image::new("a")]);
    assert_eq!(bare.missing_versions, []);
}
