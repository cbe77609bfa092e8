//! Initial-exec TLS of initial libraries, which under an audit module must fit into the surplus.

use becalm_core::index::Start;
use becalm_host::index_store::Indexed;
use bstr::BString;

use crate::support::{SHOW, Scene, skip};

fn scene(size: usize) -> Scene {
    scene_of("initial-exec", size)
}

/// A program and a library with a block of TLS that the library reaches by this model.
fn scene_of(model: &str, size: usize) -> Scene {
    let scene = Scene::new();
    let library = format!(
        "__thread char block[{size}] __attribute__((tls_model(\"{model}\"))) = {{1}};
         int x(void) {{ return block[0]; }}"
    );
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libx.so.1"];
    scene.cc("store/b/libx.so.1", &library, &flags);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    scene
}

/// Returns the programs of the one index that need more than the default.
fn in_need(indexed: &Indexed) -> Vec<(&BString, Start)> {
    let programs = indexed.machines[0].index.programs.iter();
    programs.map(|it| (&it.path, it.needs)).filter(|(_, needs)| needs.is_any()).collect()
}

#[test]
fn three_kilobytes_fail_without_the_tunable_and_start_with_it() {
    if skip() {
        return;
    }
    let scene = scene(3000);
    let indexed = scene.index(&[]);
    let needs = in_need(&indexed);
    let [(program, need)] = &needs[..] else { panic!("{needs:?}") };
    assert!(!need.no_start);
    let value = need.static_tls;
    assert_eq!(*program, scene.text("store/p/prog").as_str());

    let plain = scene.start("store/p/prog", &[]);
    assert_eq!(plain.code, 0);
    let index = scene.text("index.so");
    let without = scene.start("store/p/prog", &[("LD_AUDIT", &index)]);
    assert_ne!(without.code, 0, "nothing to guard against: {without:?}");
    let tunable = format!("glibc.rtld.optional_static_tls={value}");
    let with = scene.start("store/p/prog", &[("LD_AUDIT", &index), ("GLIBC_TUNABLES", &tunable)]);
    assert_eq!(with, plain);
}

#[test]
fn tls_that_nothing_makes_static_needs_nothing_however_large() {
    if skip() {
        return;
    }
    // As OpenBLAS has it. Some compilers make descriptors by default; these do not take a share
    // either that they do not fit in.
    let scene = scene_of("global-dynamic", 61_440);
    assert_eq!(in_need(&scene.index(&[])), []);
    scene.same("store/p/prog", &[]);
}

#[test]
fn tls_that_another_object_makes_static_counts() {
    if skip() {
        return;
    }
    // The program's own reference takes the library's block, and the library is not marked.
    let scene = scene_of("global-dynamic", 3000);
    let source = format!(
        "{SHOW} extern __thread char block[] __attribute__((tls_model(\"initial-exec\")));
         int x(void); int main(void) {{ show(x() + block[1]); }}"
    );
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    let indexed = scene.index(&[]);
    let [(_, need)] = in_need(&indexed)[..] else { panic!("{indexed:?}") };
    assert!(need.static_tls >= 3000 && !need.no_start, "{need:?}");
    let index = scene.text("index.so");
    let without = scene.start("store/p/prog", &[("LD_AUDIT", &index)]);
    assert_ne!(without.code, 0, "nothing to guard against: {without:?}");
}

#[test]
fn what_fits_the_default_needs_nothing() {
    if skip() {
        return;
    }
    let scene = scene(500);
    let indexed = scene.index(&[]);
    assert_eq!(in_need(&indexed), []);
    scene.same("store/p/prog", &[]);
}
