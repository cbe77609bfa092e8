//! Namespaces beside the program's: those of `dlmopen`, and those of other audit modules.

use std::path::PathBuf;
use std::process::Command;

use becalm_core::elf;

use crate::support::{Ran, SHOW, Scene, answered, answers, skip};

/// A program that loads `libm.so.6` into a namespace of its own, by name and again.
fn opens_a_namespace() -> String {
    format!(
        r#"{SHOW}
        #include <math.h>
        int main(void) {{
          int value = 0;
          for (int i = 0; i < 3; i++) {{
            void *l = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
            double (*floor)(double) = l ? (double (*)(double)) dlsym(l, "floor") : 0;
            value = 10 * value + (floor ? (int) floor(3.5) : 0);
          }}
          show(value);
        }}"#
    )
}

/// Copies the C library of this machine, with its loader, to a directory.
fn copy_the_c_library(scene: &Scene, to: &str) {
    std::fs::create_dir_all(scene.path(to)).unwrap();
    let program = scene.cc("interpreter", "int main(void) { return 0; }", &[]);
    let view = elf::parse(std::fs::read(program).unwrap().as_slice()).unwrap();
    let loader = PathBuf::from(view.interpreter.unwrap().to_string());
    let found = |name: &str| {
        let cc = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
        PathBuf::from(String::from_utf8(cc.stdout).unwrap().trim())
    };
    for file in [loader, found("libc.so.6"), found("libm.so.6")] {
        std::fs::copy(&file, scene.path(to).join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn the_loader_is_never_mapped_a_second_time() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    std::fs::create_dir(scene.path("empty")).unwrap();
    scene.cc("elsewhere/prog", &opens_a_namespace(), &[]);
    copy_the_c_library(&scene, "store/glibc");
    let run_path = "-Wl,-rpath,@/store/b:@/store/glibc";
    scene.cc("store/p/prog", &opens_a_namespace(), &["-lm", run_path]);
    scene.index(&["empty", "store/glibc"]);
    let paths = ["empty", "store/glibc", "nowhere"].map(|dir| scene.text(dir));
    for program in ["elsewhere/prog", "store/p/prog"] {
        let (ran, _) = scene.same(program, &[]);
        assert!(ran.stdout.ends_with("value 333\n"), "{program}: {ran:?}");
        for path in &paths {
            let (ran, answers) = scene.same(program, &[("LD_LIBRARY_PATH", path)]);
            assert!(ran.stdout.ends_with("value 333\n"), "{program}, {path}: {ran:?}");
            assert!(answered(&answers, "libm.so.6"), "{program}, {path}: {answers:?}");
        }
    }
}

/// The source of an audit module that announces `name` and calls `call` of its library.
fn auditor(name: &str, call: &str) -> String {
    format!(
        r#"#include <stdint.h>
        #include <unistd.h>
        int {call}(void);
        unsigned la_version(unsigned v) {{ return {call}() == 1 ? v : 0; }}
        unsigned la_objopen(void *m, long n, uintptr_t *c) {{
          static int is_open;
          if (n == 0 && !is_open++) write(2, "{name}\n", {length});
          return 0;
        }}"#,
        length = name.len() + 1
    )
}

/// A library of an audit module that opens another one each time it is called.
fn opens_more(name: &str) -> String {
    format!(
        r#"#include <dlfcn.h>
        int {name}(void) {{
          void *l = dlopen("libmore.so", RTLD_NOW);
          return l ? ((int (*)(void)) dlsym(l, "more"))() : 2;
        }}"#
    )
}

/// A program that needs one library, which is in the second directory of its run path.
fn scene_of_one_library() -> Scene {
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/a:@/store/b"]);
    scene
}

/// Returns the answers for the program's library with these modules before and after becalm's own.
fn among(scene: &Scene, before: &[&str], after: &[&str]) -> (Ran, Vec<(String, String)>) {
    let join = |files: &[String]| files.join(":");
    let text = |names: &[&str]| names.iter().map(|name| scene.text(name)).collect::<Vec<_>>();
    let others = [text(before), text(after)].concat();
    let all = [text(before), vec![scene.text("index.so")], text(after)].concat();
    let plain = scene.start("store/p/prog", &[("LD_AUDIT", &join(&others))]);
    let log = scene.path("log");
    let _ = std::fs::remove_file(&log);
    let becalm = format!("log:{}", log.display());
    let ran = scene.start("store/p/prog", &[("LD_AUDIT", &join(&all)), ("BECALM", &becalm)]);
    assert_eq!(ran, plain, "{before:?} {after:?}");
    (ran, answers(&log))
}

#[test]
fn other_audit_modules_before_and_after() {
    if skip() {
        return;
    }
    let scene = scene_of_one_library();
    for (name, rpath) in [
        ("one", "-Wl,-rpath,@/mine"),
        ("two", "-Wl,--disable-new-dtags,-rpath,@/mine"),
        ("three", "-Wl,-rpath,@/none:@/mine"),
    ] {
        scene.library(&format!("mine/lib{name}.so"), name, 1, &[]);
        let library = format!("@/mine/lib{name}.so");
        let arguments = ["-shared", "-fPIC", &library, rpath];
        scene.cc(&format!("{name}.so"), &auditor(name, name), &arguments);
    }
    scene.index(&[]);
    let (alone, expected) = among(&scene, &[], &[]);
    assert!(alone.stdout.ends_with("value 1\n"), "{alone:?}");
    assert!(answered(&expected, "libx.so.1"), "{expected:?}");
    for (before, after) in [
        (&["one.so"][..], &[][..]),
        (&[], &["one.so"]),
        (&["two.so"], &[]),
        (&[], &["two.so"]),
        (&["one.so"], &["three.so"]),
        (&["one.so", "two.so"], &[]),
        (&[], &["one.so", "three.so"]),
        (&["one.so", "three.so"], &["two.so"]),
    ] {
        let (ran, answers) = among(&scene, before, after);
        assert_eq!(ran.stdout, alone.stdout, "{before:?} {after:?}");
        assert_eq!(answers, expected, "{before:?} {after:?}");
    }
}

/// An object that was mapped before the module has no cookie of it, so the loader must not call the
/// module for such an object (`_dl_map_object` of glibc elf/dl-load.c calls no module in a
/// namespace of an audit module).
#[test]
fn an_audit_module_loaded_before_opens_libraries_while_the_program_runs() {
    if skip() {
        return;
    }
    let scene = scene_of_one_library();
    scene.library("mine/libmore.so", "more", 1, &[]);
    for name in ["four", "a_library_with_a_longer_name", "five5"] {
        let library = format!("mine/lib{name}.so");
        let soname = format!("-Wl,-soname,lib{name}.so");
        scene.cc(&library, &opens_more(name), &["-shared", "-fPIC", &soname, "-Wl,-rpath,@/mine"]);
        let arguments = ["-shared", "-fPIC", &format!("@/{library}"), "-Wl,-rpath,@/mine"];
        let source = auditor(name, name).replace("!is_open++)", &format!("{name}() == 1)"));
        scene.cc(&format!("{name}.so"), &source, &arguments);
    }
    scene.index(&[]);
    for (before, after) in [
        (&["four.so"][..], &[][..]),
        (&["a_library_with_a_longer_name.so", "five5.so"], &[]),
        (&["five5.so", "four.so"], &["a_library_with_a_longer_name.so"]),
    ] {
        let (ran, answers) = among(&scene, before, after);
        assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
        assert!(ran.stderr.lines().count() >= 3, "{ran:?}");
        assert!(answered(&answers, "libx.so.1"), "{answers:?}");
    }
}
