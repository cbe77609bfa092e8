//! Whole starts: order of relocation, lazy binding, the report.

use object::elf::{
    DF_1_NOW, DT_FLAGS_1, R_X86_64_DTPMOD64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT,
    R_X86_64_TLSDESC, R_X86_64_TPOFF64, STT_TLS,
};

use super::image::{Image, Sym};
use super::{GLIBC, bound, bound_by, load_of};
use crate::facts::GlibcVersion;
use crate::loader::load::{Answer, Load, Reason, Resolution};
use crate::probe::SearchSource;
use crate::symbols::report::SymbolReport;
use crate::symbols::{BindOptions, Definer, RelocationKind, order};

/// A load set of which each object needs others.
fn needing(names: &[&str], needs: &[(usize, usize)]) -> Load {
    let images: Vec<Image> = names.iter().map(|name| Image::new(name)).collect();
    let mut load = load_of(&images);
    for &(needed_by, object) in needs {
        let needed = load.objects[object].path.clone();
        let kind = crate::elf::DependencyKind::Needed;
        let answer = Answer::Loaded(object, SearchSource::System);
        let reason = Reason::Dependency(kind);
        load.resolutions.push(Resolution { needed_by, needed, reason, answer });
    }
    load
}

fn order(load: &Load, minor: u16) -> Vec<usize> {
    order::of(load, GlibcVersion { major: 2, minor })
}

#[test]
fn an_object_is_relocated_after_those_it_needs() {
    // The program needs 1 and 2, and 2 needs 1.
    let load = needing(&["prog", "a", "b"], &[(0, 1), (0, 2), (2, 1)]);
    assert_eq!(order(&load, 31), [1, 2, 0]);
    assert_eq!(order(&load, 36), [1, 2, 0]);
    // 1 needs 2: as loaded, from the end.
    let load = needing(&["prog", "a", "b"], &[(0, 1), (0, 2), (1, 2)]);
    assert_eq!(order(&load, 31), [2, 1, 0]);
    assert_eq!(order(&load, 36), [2, 1, 0]);
}

#[test]
fn a_circle_ends() {
    let circle = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (3, 1)];
    let load = needing(&["prog", "a", "b", "c"], &circle);
    for minor in [31, 36] {
        let mut sorted = order(&load, minor);
        assert_eq!(sorted.last(), Some(&0), "the program is relocated last");
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
    }
}

#[test]
fn since_2_39_the_c_library_is_relocated_first() {
    let load = needing(&["prog", "libc.so.6", "b"], &[(0, 1), (0, 2), (1, 2)]);
    assert_eq!(order(&load, 38), [2, 1, 0]);
    assert_eq!(order(&load, 39), [1, 2, 0]);
}

#[test]
fn an_object_is_bound_lazily_unless_it_or_the_environment_says_now() {
    let image =
        || Image::new("prog").symbol(Sym::defined("f", 8)).relocate(R_X86_64_JUMP_SLOT, "f");
    let lazy = |image: Image, bind_now| {
        let options = BindOptions { bind_now, ..BindOptions::default() };
        bound_by(&[image], GLIBC, options).objects[0].lazy
    };
    assert!(lazy(image(), false));
    assert!(!lazy(image(), true));
    assert!(!lazy(image().tag(DT_FLAGS_1, DF_1_NOW.0), false));
}

#[test]
fn only_relocations_that_make_tls_static_are_bound_for_its_size() {
    let program = [R_X86_64_GLOB_DAT, R_X86_64_DTPMOD64, R_X86_64_TPOFF64, R_X86_64_TLSDESC];
    let program = program
        .iter()
        .fold(Image::new("prog").symbol(Sym::undefined("t").kind(STT_TLS)), |image, kind| {
            image.relocate(*kind, "t")
        });
    let images = [program, Image::new("a").symbol(Sym::defined("t", 0).kind(STT_TLS))];
    let options = BindOptions { only_static_tls: true, ..BindOptions::default() };
    let bindings = bound_by(&images, GLIBC, options);
    let kinds = bindings.objects[0].bindings.iter().map(|it| (it.kind, it.definer));
    let of_a = Definer::Object(1);
    let expected = [(RelocationKind::TlsOffset, of_a), (RelocationKind::TlsDescriptor, of_a)];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
}

#[test]
fn the_report_names_what_is_missing_and_who_wins() {
    let images = [
        Image::new("prog")
            .symbol(Sym::undefined("f"))
            .symbol(Sym::undefined("g"))
            .relocate(R_X86_64_GLOB_DAT, "f")
            .relocate(R_X86_64_GLOB_DAT, "g"),
        Image::new("a").symbol(Sym::defined("f", 0x10)),
        Image::new("b").symbol(Sym::defined("f", 0x20)),
    ];
    let report = SymbolReport::of(&load_of(&images), &bound(&images), true);
    assert!(report.is_incomplete());
    assert_eq!(report.undefined.len(), 1);
    let undefined = &report.undefined[0];
    assert_eq!((undefined.object.as_str(), undefined.symbol.as_str()), ("prog", "g"));
    assert!(!undefined.lazy);
    assert_eq!(report.interposed.len(), 1);
    let interposed = &report.interposed[0];
    assert_eq!((interposed.definer.as_str(), interposed.references), ("a", 1));
    assert_eq!(interposed.others, ["b"]);
    let count = &report.definers[0];
    assert_eq!((count.object.as_str(), count.definer.as_str(), count.symbols), ("prog", "a", 1));
    assert_eq!(report.relocations.glob_dat, 2);
    let bindings = report.bindings.expect("they were asked for");
    assert_eq!(bindings.len(), 2);
    assert_eq!(bindings[0].definer.as_deref(), Some("a"));
    assert_eq!(bindings[1].definer, None);
}
