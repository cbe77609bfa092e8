//! Tests against the descriptors that patchelf 0.19.3 wrote for the same trees, with shorter paths.

use bstr::BString;

use crate::closure::Subject;
use crate::fs::MemFs;
use crate::fs::mem::ObjectBuilder;
use crate::strategy::patchelf;

fn fs() -> MemFs {
    let library = ObjectBuilder::library;
    MemFs::new()
        .object("/r/a/liba.so", library("liba.so"))
        .dir("/r/a/libb.so")
        .object("/r/b/liba.so", library("liba.so"))
        .object("/r/b/libb.so", library("libb.so"))
        .object("/r/c/libb.so", library("libb.so"))
        .dir("/r/c/glibc-hwcaps")
        .file("/r/file", "x")
        .file("/r/wrong/liba.so", "junk")
        .link("/r/wrong/libb.so", "nowhere")
        .link("/r/link", "a")
}

/// Formats the descriptor with a `|` for each NUL.
fn descriptor(object: ObjectBuilder) -> Option<String> {
    let fs = fs().object("/p", object);
    let subject = Subject::open(&fs, "/p".into()).expect("the fixture's program");
    let bytes = patchelf::descriptor(&fs, &subject.view)?;
    Some(BString::from(bytes).to_string().replace('\0', "|"))
}

fn with(runpath: &str) -> Option<String> {
    descriptor(ObjectBuilder::program().needed("libb.so").needed("liba.so").runpath(runpath))
}

#[test]
fn descriptors_equal_those_of_patchelf() {
    for (runpath, written) in [
        (
            "/r/a:/r/b:/r/c",
            "liba.so|=/r/a/liba.so:=/r/b/liba.so:?/r/c|\
             libb.so|=/r/a/libb.so:=/r/b/libb.so:?/r/c||",
        ),
        (
            "/absent:/r/a/:/r/file:/r/wrong:",
            "liba.so|?/absent:=/r/a//liba.so:?/r/file:=/r/wrong/liba.so:?|\
             libb.so|?/absent:=/r/a//libb.so:?/r/file:?||",
        ),
        (
            "$ORIGIN:/r/x$y:/r/b:/r/b:rel::",
            "liba.so|?$ORIGIN:?/r/x$y:=/r/b/liba.so:=/r/b/liba.so:?rel:?:?|\
             libb.so|?$ORIGIN:?/r/x$y:=/r/b/libb.so:=/r/b/libb.so:?rel:?:?||",
        ),
        (
            "/r/link:/r/../r/./b",
            "liba.so|=/r/link/liba.so:=/r/../r/./b/liba.so|\
             libb.so|=/r/link/libb.so:=/r/../r/./b/libb.so||",
        ),
    ] {
        assert_eq!(with(runpath).as_deref(), Some(written), "{runpath}");
    }
    assert_eq!(with(""), None);
    assert_eq!(descriptor(ObjectBuilder::program().runpath("/r/a")), None);
    assert_eq!(descriptor(ObjectBuilder::program().needed("libn.so").runpath("/r/a")), None);
}

#[test]
fn rpath_counts_if_there_is_no_runpath() {
    let object = || ObjectBuilder::program().needed("liba.so").rpath("/r/a");
    assert_eq!(descriptor(object()).as_deref(), Some("liba.so|=/r/a/liba.so||"));
    assert_eq!(descriptor(object().runpath("/r/b")).as_deref(), Some("liba.so|=/r/b/liba.so||"));
}

#[test]
fn objects_without_a_note_of_patchelf_have_no_descriptor() {
    let object = ObjectBuilder::program().needed("").needed("a:b").needed("/x/y").needed("liba.so");
    assert_eq!(descriptor(object.runpath("/r/a")).as_deref(), Some("liba.so|=/r/a/liba.so||"));
}
