//! A module tree: each library has a directory of its own, and `LD_LIBRARY_PATH` names them all.

use crate::support::{SHOW, Scene, answered, no_strace, skip};

const LIBRARIES: usize = 40;

/// The tree, and a program that needs every library, without run paths or with one.
fn tree(has_run_path: bool) -> Scene {
    let scene = Scene::new();
    let numbers = 0..LIBRARIES;
    for n in numbers.clone() {
        scene.library(&format!("store/m{n}/lib/lib{n}.so.1"), &format!("f{n}"), 1, &[]);
    }
    let declared: String = numbers.clone().map(|n| format!("int f{n}(void);")).collect();
    let sum = numbers.clone().map(|n| format!("f{n}()")).collect::<Vec<_>>().join("+");
    let source = format!("{SHOW} {declared} int main(void) {{ show({sum}); }}");
    let mut arguments: Vec<String> =
        numbers.clone().map(|n| format!("@/store/m{n}/lib/lib{n}.so.1")).collect();
    if has_run_path {
        let dirs: Vec<String> = numbers.map(|n| format!("@/store/m{n}/lib")).collect();
        arguments.push(format!("-Wl,--enable-new-dtags,-rpath,{}", dirs.join(":")));
    }
    scene.cc("store/p/prog", &source, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    scene
}

fn dirs() -> Vec<String> {
    (0..LIBRARIES).map(|n| format!("store/m{n}/lib")).collect()
}

/// `LD_LIBRARY_PATH` as modules set it: what was loaded last comes first.
fn library_path(scene: &Scene) -> String {
    let dirs = dirs().into_iter().rev().map(|dir| scene.text(&dir));
    dirs.collect::<Vec<_>>().join(":")
}

#[test]
fn libraries_that_only_ld_library_path_finds_are_answered() {
    if skip() || no_strace() {
        return;
    }
    for has_run_path in [false, true] {
        let scene = tree(has_run_path);
        let dirs = dirs();
        scene.index(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
        let path = library_path(&scene);
        let (ran, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        assert!(ran.stdout.ends_with("value 40\n"), "{ran:?}");
        for n in 0..LIBRARIES {
            assert!(answered(&answers, &format!("lib{n}.so.1")), "{n}: {answers:?}");
        }
        let index = scene.text("index.so");
        let plain = scene.file_calls("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        let environment = [("LD_LIBRARY_PATH", path.as_str()), ("LD_AUDIT", &index)];
        let (calls, misses) = scene.file_calls("store/p/prog", &environment);
        assert!(calls * 4 < plain.0 && misses * 50 <= plain.1, "{calls}, {misses} of {plain:?}");
    }
}

#[test]
fn directories_that_are_not_indexed_cost_no_call_besides_the_loaders_own() {
    if skip() || no_strace() {
        return;
    }
    for has_run_path in [false, true] {
        let scene = tree(has_run_path);
        scene.index(&[]);
        let path = library_path(&scene);
        let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        assert!(ran.stdout.ends_with("value 40\n"), "{ran:?}");
        let index = scene.text("index.so");
        let (plain, missed) = scene.file_calls("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        let environment = [("LD_LIBRARY_PATH", path.as_str()), ("LD_AUDIT", &index)];
        let (calls, misses) = scene.file_calls("store/p/prog", &environment);
        // The module is opened, and reads the link to the program.
        assert!(calls <= plain + 3 && misses <= missed, "{calls}, {misses}: {plain}, {missed}");
    }
}

#[test]
fn a_library_of_the_tree_that_was_replaced_moved_or_hidden_is_searched() {
    if skip() {
        return;
    }
    let scene = tree(false);
    let dirs = dirs();
    scene.index(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
    let path = library_path(&scene);
    // Found before the one of its own directory.
    scene.library("store/m39/lib/lib0.so.1", "f0", 2, &[]);
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 41\n"), "{ran:?}");
    std::fs::remove_file(scene.path("store/m1/lib/lib1.so.1")).unwrap();
    scene.library("store/m38/lib/lib1.so.1", "f1", 3, &[]);
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 43\n"), "{ran:?}");
    // In another order, and with elements that are the loader's.
    let here = format!("{}:{path}", scene.text("store/m1/lib"));
    for path in [format!(":{here}"), format!("relative:{here}"), format!("{here}:$LIB"), here] {
        scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    }
}
