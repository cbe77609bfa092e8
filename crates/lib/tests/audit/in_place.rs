//! Trees that are changed in place: an answer is valid only while every directory on the way of the
//! search is as it was indexed.

use crate::support::{SHOW, Scene, answered, skip, start};

/// A virtual environment whose `ext.so` searches `a`, then `b`, where `libx.so.1` is.
fn environment() -> Scene {
    let scene = Scene::new();
    std::fs::write(scene.path("store/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    std::fs::create_dir(scene.path("store/a")).unwrap();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("aside/libx.so.1", "x", 2, &[]);
    let links =
        ["-shared", "-fPIC", "@/store/b/libx.so.1", "-Wl,-rpath,@/store/a:@/store/b:@/store/none"];
    scene.cc("store/ext.so", "int x(void); int ext(void) { return x(); }", &links);
    scene
}

/// Opens the extension, moves a file, opens it again; prints both values as two digits.
fn opening_twice(scene: &Scene) -> String {
    format!(
        r#"{SHOW}
        #include <stdio.h>
        #include <stdlib.h>
        static int value(void) {{
          void *l = dlopen("{}", RTLD_NOW);
          int value = l ? ((int (*)(void)) dlsym(l, "ext"))() : 0;
          if (l) dlclose(l);
          return value;
        }}
        int main(int argc, char **argv) {{
          int first = value();
          rename(argv[1], argv[2]);
          show(10 * first + value());
          rename(argv[2], argv[1]);
        }}"#,
        scene.text("store/ext.so")
    )
}

#[test]
fn a_library_put_before_an_answer_of_a_virtual_environment_is_found() {
    if skip() {
        return;
    }
    let scene = environment();
    let program = scene.cc("prog", &opening_twice(&scene), &["-ldl"]);
    let (from, to) = (scene.path("aside/libx.so.1"), scene.path("store/a/libx.so.1"));
    let line = [program, from, to];
    let plain = start(&line, &[]);
    assert!(plain.stdout.ends_with("value 12\n"), "{plain:?}");
    scene.index(&[]);
    let (calmed, answers) = scene.logged(&line, &[]);
    assert_eq!(calmed, plain, "{answers:?}");
    assert!(answered(&answers, "libx.so.1"), "the first time: {answers:?}");
}

#[test]
fn a_hwcaps_subdirectory_of_a_virtual_environment_leaves_its_names_to_the_loader() {
    if skip() {
        return;
    }
    let scene = environment();
    // A file added to it later does not change the directory above.
    std::fs::create_dir_all(scene.path("store/b/glibc-hwcaps/x86-64-v2")).unwrap();
    let program = scene.cc("prog", &opening_twice(&scene), &["-ldl"]);
    scene.index(&[]);
    let (_, answers) = scene.logged(&[program, scene.path("aside/none"), scene.path("none")], &[]);
    assert!(!answered(&answers, "libx.so.1"), "{answers:?}");
}

#[test]
fn a_hwcaps_subdirectory_of_a_virtual_environment_gives_nothing_to_objects_that_inherit_its_rpath()
{
    if skip() {
        return;
    }
    for has_hwcaps in [false, true] {
        let scene = environment();
        let place = if has_hwcaps { "store/b/glibc-hwcaps/x86-64-v2" } else { "store/a" };
        std::fs::create_dir_all(scene.path(place)).unwrap();
        // Without a run path: it inherits that of the extension.
        let links = ["-shared", "-fPIC", "@/store/b/libx.so.1", "-Wl,-soname,liby.so.1"];
        scene.cc("store/b/liby.so.1", "int x(void); int y(void) { return x(); }", &links);
        let run_path = "-Wl,--disable-new-dtags,-rpath,@/store/a:@/store/b";
        let links = ["-shared", "-fPIC", "@/store/b/liby.so.1", "-Wl,-rpath-link,@/store/b"];
        let links = [&links[..], &[run_path]].concat();
        scene.cc("store/ext.so", "int y(void); int ext(void) { return y(); }", &links);
        let program = scene.cc("prog", &opening_twice(&scene), &["-ldl"]);
        let to = scene.path(place).join("libx.so.1");
        let line = [program, scene.path("aside/libx.so.1"), to];
        let plain = start(&line, &[]);
        scene.index(&[]);
        let (calmed, answers) = scene.logged(&line, &[]);
        assert_eq!(calmed, plain, "{answers:?}");
        assert_eq!(answered(&answers, "libx.so.1"), !has_hwcaps, "{answers:?}");
    }
}
