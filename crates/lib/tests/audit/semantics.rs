//! The loader's rules, with the module and without.

use becalm_core::index::{Condition, Fingerprint};
use bstr::ByteSlice;

use crate::support::{SHOW, Scene, answered, skip};

/// A program with two run-path directories, the library in the second.
fn two_dirs(scene: &Scene, runpath: &str) {
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    std::fs::create_dir_all(scene.path("store/a")).unwrap();
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/bin/prog", &source, &["@/store/b/libx.so.1", runpath]);
}

#[test]
fn a_run_path_is_answered_and_so_is_what_the_loader_cache_has() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(ran.stdout.contains("store/b/libx.so.1\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1") && answered(&answers, "libc.so.6"), "{answers:?}");
}

#[test]
fn origin_is_the_directory_of_the_real_program() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,$ORIGIN/../../a:$ORIGIN/../../b");
    std::fs::create_dir(scene.path("profile")).unwrap();
    std::os::unix::fs::symlink(scene.path("store/p/bin/prog"), scene.path("profile/prog")).unwrap();
    scene.index(&[]);
    for program in ["store/p/bin/prog", "profile/prog"] {
        let (ran, answers) = scene.same(program, &[]);
        assert!(ran.stdout.contains("store/p/bin/../../b/libx.so.1\n"), "{ran:?}");
        assert!(answered(&answers, "libx.so.1"), "{program}: {answers:?}");
    }
}

#[test]
fn an_object_replaced_after_indexing_is_not_answered_for() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    scene.index(&[]);
    scene.library("store/c/libx.so.1", "x", 3, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/bin/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/c"]);
    let (ran, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(ran.stdout.ends_with("value 3\n"), "{ran:?}");
    assert_eq!(answers, []);
}

#[test]
fn a_package_deleted_after_indexing_is_searched_for() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/b:@/store/c");
    scene.library("store/c/libx.so.1", "x", 3, &[]);
    scene.index(&[]);
    let (before, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(before.stdout.ends_with("value 1\n") && answered(&answers, "libx.so.1"));
    std::fs::remove_dir_all(scene.path("store/b")).unwrap();
    let (after, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(after.stdout.ends_with("value 3\n"), "{after:?}");
    assert!(!answered(&answers, "libx.so.1"), "{answers:?}");
    std::fs::remove_dir_all(scene.path("store/c")).unwrap();
    let (gone, _) = scene.same("store/p/bin/prog", &[]);
    assert_eq!(gone.code, 127);
}

/// A hash-named package of the scene's store.
fn package(number: u8) -> String {
    format!("store/0123456789abcdfghijklmnpqrsvwxy{number}-p{number}")
}

#[test]
fn a_package_that_comes_after_indexing_is_searched_in_its_turn() {
    if skip() {
        return;
    }
    for packages in
        [["none", "lib", "prog"].map(|name| format!("store/{name}")), [0, 1, 2].map(package)]
    {
        let scene = Scene::new();
        let [late, there, own] = &packages;
        scene.library(&format!("{there}/lib/libx.so.1"), "x", 1, &[]);
        let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
        let (link, rpath) =
            (format!("@/{there}/lib/libx.so.1"), format!("-Wl,-rpath,@/{late}/lib:@/{there}/lib"));
        let program = format!("{own}/bin/prog");
        scene.cc(&program, &source, &[&link, &rpath]);
        scene.index(&[]);
        let (ran, answers) = scene.same(&program, &[]);
        assert!(
            ran.stdout.ends_with("value 1\n") && answered(&answers, "libx.so.1"),
            "{answers:?}"
        );
        // Another package, on which the answer does not depend.
        std::fs::create_dir(scene.path(&package(9))).unwrap();
        let (_, answers) = scene.same(&program, &[]);
        assert!(answered(&answers, "libx.so.1"), "{answers:?}");
        scene.library(&format!("{late}/lib/libx.so.1"), "x", 2, &[]);
        let (ran, answers) = scene.same(&program, &[]);
        assert!(ran.stdout.ends_with("value 2\n"), "{late}: {ran:?}");
        assert!(!answered(&answers, "libx.so.1"), "{answers:?}");
    }
}

#[test]
fn the_whole_store_deleted_after_indexing() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    std::fs::copy(scene.path("store/p/bin/prog"), scene.path("prog")).unwrap();
    scene.index(&[]);
    std::fs::remove_dir_all(scene.store()).unwrap();
    let (ran, _) = scene.same("prog", &[]);
    assert_eq!(ran.code, 127, "{ran:?}");
}

#[test]
fn a_preload_comes_first() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    scene.library("other/libover.so", "x", 7, &[]);
    scene.library("store/a/libover2.so", "x", 8, &[]);
    scene.index(&[]);
    let (ran, _) =
        scene.same("store/p/bin/prog", &[("LD_PRELOAD", &scene.text("other/libover.so"))]);
    assert!(ran.stdout.ends_with("value 7\n"), "{ran:?}");
    let (ran, _) = scene.same("store/p/bin/prog", &[("LD_PRELOAD", "libover2.so")]);
    assert!(ran.stdout.ends_with("value 8\n"), "{ran:?}");
}

#[test]
fn rpath_of_the_program_answers_before_library_path_and_for_what_it_loads() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("over/libx.so.1", "x", 9, &[]);
    let library = "int x(void); int y(void) { return x(); }";
    let soname = "-Wl,-soname,liby.so.1";
    scene.cc("store/b/liby.so.1", library, &["-shared", "-fPIC", soname, "@/store/b/libx.so.1"]);
    let source = format!("{SHOW} int y(void); int main(void) {{ show(y()); }}");
    let rpath = "-Wl,--disable-new-dtags,-rpath,@/store/a:@/store/b";
    scene.cc("store/p/bin/prog", &source, &["@/store/b/liby.so.1", rpath]);
    scene.index(&["over"]);
    let (ran, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "liby.so.1"), "{answers:?}");
    // The loader's rule: the program's DT_RPATH is before LD_LIBRARY_PATH for liby too.
    let (ran, _) = scene.same("store/p/bin/prog", &[("LD_LIBRARY_PATH", &scene.text("over"))]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
}

#[test]
fn a_strangers_rpath_answers_for_a_library_of_the_store_as_before() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("mine/libx.so.1", "x", 5, &[]);
    let lib = "int x(void); int y(void) { return x(); }";
    scene.cc(
        "store/c/liby.so.1",
        lib,
        &["-shared", "-fPIC", "-Wl,-soname,liby.so.1", "@/store/b/libx.so.1"],
    );
    let source = format!("{SHOW} int y(void); int main(void) {{ show(y()); }}");
    let rpath = "-Wl,--disable-new-dtags,-rpath,@/mine:@/store/c";
    scene.cc("mine/prog", &source, &["@/store/c/liby.so.1", "-Wl,-rpath-link,@/store/b", rpath]);
    scene.index(&[]);
    let (ran, _) = scene.same("mine/prog", &[]);
    assert!(ran.stdout.ends_with("value 5\n"), "{ran:?}");
}

#[test]
fn two_objects_of_one_process_ask_one_soname_with_two_run_paths() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/one/libx.so.1", "x", 1, &[]);
    scene.library("store/two/libx.so.1", "x", 2, &[]);
    for (lib, dir) in [("a", "one"), ("b", "two")] {
        let source = format!("int x(void); int {lib}(void) {{ return x(); }}");
        let soname = format!("-Wl,-soname,lib{lib}.so");
        let (dep, rpath) =
            (format!("@/store/{dir}/libx.so.1"), format!("-Wl,-rpath,@/store/{dir}"));
        let arguments = ["-shared", "-fPIC", &soname, &dep, &rpath];
        scene.cc(&format!("store/l{lib}/lib{lib}.so"), &source, &arguments);
    }
    let source = format!("{SHOW} int a(void), b(void); int main(void) {{ show(10 * a() + b()); }}");
    for (program, order) in [("ab", ["a", "b"]), ("ba", ["b", "a"])] {
        let libs = order.map(|lib| format!("@/store/l{lib}/lib{lib}.so"));
        let rpath = "-Wl,-rpath,@/store/la:@/store/lb";
        let link = "-Wl,--allow-shlib-undefined";
        scene.cc(&format!("store/p/{program}"), &source, &[&libs[0], &libs[1], rpath, link]);
    }
    scene.index(&[]);
    let (ab, _) = scene.same("store/p/ab", &[]);
    let (ba, _) = scene.same("store/p/ba", &[]);
    assert!(ab.stdout.ends_with("value 11\n") && ba.stdout.ends_with("value 22\n"));
}

#[test]
fn dlopen_from_the_program_from_a_plugin_and_into_a_namespace() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("store/c/libx.so.1", "x", 4, &[]);
    let plugin = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        int y(void) { void *l = dlopen("libx.so.1", RTLD_NOW); return ((int (*)(void)) dlsym(l, "x"))(); }
    "#;
    scene.cc("store/d/plugin.so", plugin, &["-shared", "-fPIC", "-Wl,-rpath,@/store/c"]);
    let source = format!(
        r#"{SHOW}
        int main(void) {{
          void *p = dlopen("{0}", RTLD_NOW);
          int value = ((int (*)(void)) dlsym(p, "y"))();
          void *n = dlmopen(LM_ID_NEWLM, "libx.so.1", RTLD_NOW);
          value = 10 * value + ((int (*)(void)) dlsym(n, "x"))();
          void *l = dlopen("libx.so.1", RTLD_NOW);
          value = 10 * value + ((int (*)(void)) dlsym(l, "x"))();
          show(value);
        }}"#,
        scene.text("store/d/plugin.so")
    );
    scene.cc("store/p/prog", &source, &["-Wl,-rpath,@/store/b"]);
    scene.index(&[]);
    let (ran, _) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 414\n"), "{ran:?}");
}

#[test]
fn a_loader_cache_written_anew_is_looked_into() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    let indexed = scene.index(&[]);
    let machine = &indexed.machines[0];
    let mut index = machine.index.clone();
    let conditions = index.conditions();
    let caches = conditions.iter().filter(|it| matches!(&****it, Condition::File(..))).count();
    assert_eq!(caches, 1, "{conditions:?}");
    index.map_conditions(|condition| match condition.clone() {
        Condition::File(path, known) => {
            Condition::File(path, Fingerprint { ino: known.ino ^ 1, ..known })
        }
        condition => condition,
    });
    scene.write_index(&index, machine.target);
    let (_, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(answered(&answers, "libc.so.6"), "it says the same: {answers:?}");
    // An index with another answer than the cache's current one.
    let elsewhere = scene.text("libc.so.6");
    for edge in index.objects.iter_mut().flat_map(|object| &mut object.edges) {
        if edge.needed() == "libc.so.6" {
            std::os::unix::fs::symlink(edge.path.to_path().unwrap(), &elsewhere).ok();
            edge.path = elsewhere.as_str().into();
        }
    }
    scene.write_index(&index, machine.target);
    let (_, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(!answered(&answers, "libc.so.6"), "{answers:?}");
}

#[test]
fn off_answers_nothing() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    scene.index(&[]);
    let index = scene.text("index.so");
    let trace = |becalm: &str| {
        let environment = [("LD_AUDIT", index.as_str()), ("BECALM", becalm), ("LD_DEBUG", "libs")];
        scene.start("store/p/bin/prog", &environment).stderr
    };
    assert!(!trace("on").contains("search path="));
    assert!(trace("off").contains("search path="));
}

#[test]
fn a_hwcaps_variant_is_left_to_the_loader() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    if cfg!(target_arch = "x86_64") {
        scene.library("store/a/glibc-hwcaps/x86-64-v2/libx.so.1", "x", 2, &[]);
    } else {
        scene.library("store/a/tls/libx.so.1", "x", 2, &[]);
    }
    scene.index(&[]);
    let (_, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(!answered(&answers, "libx.so.1") && answered(&answers, "libc.so.6"), "{answers:?}");
}

#[test]
fn a_file_of_another_class_on_the_way_is_passed_over() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    two_dirs(&scene, "-Wl,-rpath,@/store/a:@/store/b");
    let mut bytes = std::fs::read(scene.path("store/b/libx.so.1")).unwrap();
    bytes[4] ^= 3;
    std::fs::write(scene.path("store/a/libx.so.1"), bytes).unwrap();
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/bin/prog", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
}

#[test]
fn a_program_that_clears_its_environment_and_writes_over_it() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("over/libx.so.1", "x", 9, &[]);
    let source = format!(
        r#"{SHOW}
        #include <string.h>
        #include <stdlib.h>
        extern char **environ;
        int main(void) {{
          for (char **e = environ; *e; e++) memset(*e, 'x', strlen(*e));
          clearenv();
          void *l = dlopen("libx.so.1", RTLD_NOW);
          show(l ? ((int (*)(void)) dlsym(l, "x"))() : -1);
        }}"#
    );
    scene.cc("store/p/prog", &source, &["-Wl,-rpath,@/store/b"]);
    scene.index(&["over"]);
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &scene.text("over"))]);
    assert!(ran.stdout.ends_with("value 9\n"), "{ran:?}");
}
