//! `LD_LIBRARY_PATH`: first as always, and without its misses if snapshots are valid.

use std::time::Duration;

use becalm_core::elf;

use crate::support::{SHOW, Scene, answered, skip, start};

/// A program with a library in the store, and `d0` to `d9` beside the store; `d9` has an unrelated
/// file.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    for dir in DIRS {
        std::fs::create_dir(scene.path(dir)).unwrap();
    }
    std::fs::write(scene.path("d9/readme"), "").unwrap();
    scene
}

const DIRS: [&str; 10] = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"];

fn all(scene: &Scene) -> String {
    DIRS.map(|dir| scene.text(dir)).join(":")
}

#[test]
fn directories_without_the_name_cost_no_answer() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.index(&DIRS);
    let path = all(&scene);
    let (ran, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1") && answered(&answers, "libc.so.6"), "{answers:?}");
}

/// Paths of 257 directories, of more than 16 kB, and of all that the kernel takes for one variable.
fn long_paths(scene: &Scene) -> Vec<String> {
    let dirs = |count: usize, name: &str| -> String {
        (0..count).map(|n| format!("{}{n}", scene.text(name))).collect::<Vec<_>>().join(":")
    };
    let known = all(scene);
    let many = format!("{}:{known}", dirs(257 - DIRS.len(), "none"));
    let wide = format!("{known}:{}:{known}", dirs(100, &"w".repeat(160)));
    assert!(wide.len() > 16 << 10);
    let mut longest = known.clone();
    while longest.len() + known.len() < (128 << 10) - "LD_LIBRARY_PATH=".len() - 1 {
        longest = format!("{longest}:{known}");
    }
    vec![many, wide, longest]
}

/// Indexes these paths' directories too.
fn index_all(scene: &Scene) {
    let none = (0..257 - DIRS.len()).map(|n| format!("none{n}"));
    let wide = (0..100).map(|n| format!("{}{n}", "w".repeat(160)));
    let dirs: Vec<String> =
        DIRS.map(ToOwned::to_owned).into_iter().chain(none).chain(wide).collect();
    scene.index(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_path_of_any_length_costs_no_answer() {
    if skip() {
        return;
    }
    let scene = scene();
    index_all(&scene);
    for path in long_paths(&scene) {
        let length = path.len();
        let (ran, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        assert!(ran.stdout.ends_with("value 1\n"), "{length}: {ran:?}");
        for name in ["libx.so.1", "libc.so.6"] {
            assert!(answered(&answers, name), "{length}: {answers:?}");
        }
    }
    scene.library("d9/libx.so.1", "x", 9, &[]);
    for path in long_paths(&scene) {
        let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
        assert!(ran.stdout.ends_with("value 9\n"), "{}: {ran:?}", path.len());
    }
}

#[test]
fn a_path_that_is_left_to_the_loader_is_named_in_the_log() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.index(&DIRS);
    let program = scene.text("store/p/prog");
    let view = elf::parse(std::fs::read(&program).unwrap().as_slice()).unwrap();
    let loader = view.interpreter.unwrap().to_string();
    let given_up = |line: &[&str]| {
        let (ran, _) = scene.logged(line, &[]);
        assert_eq!(ran, start(line, &[]));
        let log = std::fs::read_to_string(scene.path("log")).unwrap();
        log.lines().filter(|line| line.ends_with("\tgiven-up\t0\tLD_LIBRARY_PATH")).count()
    };
    assert_eq!(given_up(&[&loader, "--inhibit-rpath", "/nonexistent", &program]), 1);
    for path in long_paths(&scene) {
        assert_eq!(given_up(&[&loader, "--library-path", &path, &program]), 0);
    }
    assert_eq!(given_up(&[&program]), 0);
}

#[test]
fn what_it_has_wins_and_is_answered() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.library("d7/libx.so.1", "x", 7, &[]);
    scene.index(&DIRS);
    let path = all(&scene);
    let (ran, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 7\n"), "{ran:?}");
    assert!(answers.contains(&("libx.so.1".into(), scene.text("d7/libx.so.1"))), "{answers:?}");
    let slashes = format!("{}//", path);
    scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &slashes)]);
}

#[test]
fn a_library_added_after_indexing_is_found_and_a_removed_one_is_not_named() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.library("d2/libx.so.1", "x", 2, &[]);
    scene.index(&DIRS);
    let path = all(&scene);
    scene.library("d1/libx.so.1", "x", 11, &[]);
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 11\n"), "{ran:?}");
    std::fs::remove_file(scene.path("d1/libx.so.1")).unwrap();
    std::fs::remove_file(scene.path("d2/libx.so.1")).unwrap();
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
}

#[test]
fn a_directory_changed_within_the_clocks_grain_is_not_trusted() {
    if skip() {
        return;
    }
    let scene = scene();
    std::thread::sleep(Duration::from_millis(250));
    // Changed between the pause before indexing and the indexing itself.
    let late = scene.path("d3/late");
    let fingerprint = {
        std::fs::write(&late, "").unwrap();
        let stores = [scene.store()];
        let dirs = DIRS.map(|dir| scene.path(dir));
        let options = becalm_host::index_store::IndexOptions {
            stores: &stores,
            dirs: &dirs,
            ..Default::default()
        };
        becalm_host::index_store::index_stores(&becalm_host::OsFs::new(), options)
    };
    let index = &fingerprint.machines[0].index;
    let known = |dir: &str| {
        let path = scene.text(dir);
        index.directories.iter().any(|known| known.path == path && known.names.is_some())
    };
    assert!(known("d2") && !known("d3"));
}

#[test]
fn directories_nobody_indexed() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.index(&[]);
    let path = all(&scene);
    let absent = format!("{}:{path}", scene.text("nowhere"));
    for path in [&path, &absent] {
        let (ran, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", path)]);
        assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
        assert!(answered(&answers, "libx.so.1"), "{answers:?}");
    }
    scene.library("d4/libx.so.1", "x", 4, &[]);
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &path)]);
    assert!(ran.stdout.ends_with("value 4\n"), "{ran:?}");
}

#[test]
fn a_directory_that_was_only_walked_is_no_snapshot() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.library("store/over/libx.so.1", "x", 3, &[]);
    scene.index(&[]);
    let over = scene.text("store/over");
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &over)]);
    assert!(ran.stdout.ends_with("value 3\n"), "{ran:?}");
}

#[test]
fn hwcaps_subdirectories_relative_elements_and_tokens_are_the_loaders() {
    if skip() {
        return;
    }
    let scene = scene();
    let level = if cfg!(target_arch = "x86_64") { "glibc-hwcaps/x86-64-v2" } else { "tls" };
    scene.library(&format!("d5/{level}/libx.so.1"), "x", 5, &[]);
    scene.index(&DIRS);
    let (_, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &all(&scene))]);
    assert!(!answered(&answers, "libx.so.1"), "{answers:?}");
    for path in [":", "d0", "$ORIGIN/../d5", "${ORIGIN}/../../d5;d0"] {
        let (_, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", path)]);
        assert!(!answered(&answers, "libx.so.1"), "{path}: {answers:?}");
    }
}

#[test]
fn a_driver_directory_swaps_what_a_dispatch_library_opens() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.library("store/gl/libGLdriver.so.0", "draw", 1, &[]);
    scene.library("d6/libGLdriver.so.0", "draw", 6, &[]);
    let dispatch = r#"
        #include <dlfcn.h>
        int gl(void) { void *l = dlopen("libGLdriver.so.0", RTLD_NOW);
          return ((int (*)(void)) dlsym(l, "draw"))(); }"#;
    scene.cc(
        "store/glvnd/libGL.so.1",
        dispatch,
        &["-shared", "-fPIC", "-Wl,-soname,libGL.so.1", "-Wl,-rpath,@/store/gl"],
    );
    let source = format!("{SHOW} int gl(void); int main(void) {{ show(gl()); }}");
    scene.cc("store/p/draw", &source, &["@/store/glvnd/libGL.so.1", "-Wl,-rpath,@/store/glvnd"]);
    scene.index(&DIRS);
    let (ran, _) = scene.same("store/p/draw", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    let (ran, _) = scene.same("store/p/draw", &[("LD_LIBRARY_PATH", &all(&scene))]);
    assert!(ran.stdout.ends_with("value 6\n"), "{ran:?}");
}

#[test]
fn a_program_without_a_run_path_is_calmed_too() {
    if skip() {
        return;
    }
    let scene = scene();
    let source = format!("{SHOW} int main(void) {{ show(0); }}");
    scene.cc("elsewhere/prog", &source, &[]);
    scene.index(&DIRS);
    let (_, answers) = scene.same("elsewhere/prog", &[("LD_LIBRARY_PATH", &all(&scene))]);
    assert!(answered(&answers, "libc.so.6"), "{answers:?}");
    let (_, answers) = scene.same("elsewhere/prog", &[]);
    assert_eq!(answers, []);
}

#[test]
fn a_loader_named_by_another_path_is_calmed_too() {
    if skip() {
        return;
    }
    let scene = scene();
    let source = format!("{SHOW} int main(void) {{ show(0); }}");
    let usual = scene.cc("elsewhere/prog", &source, &[]);
    let fs = becalm_host::OsFs::new();
    let path = bstr::BString::from(usual.to_str().unwrap());
    let subject = becalm_core::closure::Subject::open(&fs.session(), path.as_ref()).unwrap();
    let loader = subject.interpreter.unwrap().to_string();
    std::os::unix::fs::symlink(loader, scene.path("ld.so")).unwrap();
    scene.cc("store/q/prog", &source, &["-Wl,--dynamic-linker=@/ld.so", "-Wl,-rpath,@/store/b"]);
    scene.cc("store/q/prog2", &source, &["-Wl,--dynamic-linker=@/ld.so", "-Wl,-rpath,@/store/b"]);
    scene.index(&DIRS);
    let path = all(&scene);
    for program in ["elsewhere/prog", "store/p/prog", "store/q/prog"] {
        let (_, answers) = scene.same(program, &[("LD_LIBRARY_PATH", &path)]);
        assert!(answered(&answers, "libc.so.6"), "{program}: {answers:?}");
    }
}
