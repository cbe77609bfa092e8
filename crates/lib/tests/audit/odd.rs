//! Unusual objects, names and starts: the answers are those of the search, or there are none.

use std::path::Path;

use becalm_core::elf;

use crate::support::{SHOW, Scene, answered, headers, skip, start, word};

const RUN_PATH: &str = "-Wl,-rpath,@/store/a:@/store/b";

/// A program that prints the result of `x()`.
fn calls_x() -> String {
    format!("{SHOW} int x(void); int main(void) {{ show(x()); }}")
}

#[test]
fn a_program_with_a_variable_of_the_loaders_name() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let source = format!("void *__libc_stack_end = (void *) 8;\n{}", calls_x());
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", RUN_PATH, "-rdynamic"]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
}

#[test]
fn names_with_a_dollar_sign_are_the_loaders() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("over/lib$LIB.so", "x", 3, &[]);
    scene.library("store/b/lib$LIB.so", "x", 2, &[]);
    let source = format!(
        r#"{SHOW}
        int main(void) {{
          void *l = dlopen("lib$LIB.so", RTLD_NOW);
          show(l ? ((int (*)(void)) dlsym(l, "x"))() : -1);
        }}"#
    );
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", RUN_PATH]);
    scene.index(&["over"]);
    let over = scene.text("over");
    for environment in [&[][..], &[("LD_LIBRARY_PATH", over.as_str())]] {
        let (_, answers) = scene.same("store/p/prog", environment);
        assert!(answered(&answers, "libx.so.1"), "{answers:?}");
    }
}

/// A store where one library, `libreal.so.1`, is needed as `liba.so.1` and as `libb.so.1`, and also
/// by a library that finds neither.
fn with_two_names(scene: &Scene, soname: &str) {
    let made = ["-shared", "-fPIC", soname];
    scene.cc("store/r/libreal.so.1", "int x(void) { return 1; }", &made);
    for name in ["liba.so.1", "libb.so.1"] {
        std::os::unix::fs::symlink("libreal.so.1", scene.path(&format!("store/r/{name}"))).unwrap();
    }
    // The linker records each library's soname, so there are stand-ins with the other names.
    for name in ["a", "b"] {
        scene.library(&format!("links/lib{name}.so.1"), "x", 0, &[]);
    }
    let library = |file: &str, links: &[&str], rpath: &str| {
        let soname = format!("-Wl,-soname,{}", Path::new(file).file_name().unwrap().display());
        let function = Path::new(file).file_stem().unwrap().to_str().unwrap();
        let source = format!("int x(void); int {function}(void) {{ return x(); }}");
        let arguments = [&["-shared", "-fPIC", &soname], links, &[rpath]].concat();
        scene.cc(file, &source, &arguments);
    };
    let (a, b) = ("@/links/liba.so.1", "@/links/libb.so.1");
    library("store/one/one.so", &[a, b], "-Wl,-rpath,@/store/r");
    library("store/two/two.so", &[b], "-Wl,-rpath,@/store/none");
    let libraries = ["@/store/one/one.so", "@/store/two/two.so"];
    let run_path = "-Wl,-rpath,@/store/one:@/store/two";
    let source =
        format!("{SHOW} int one(void), two(void); int main(void) {{ show(one() + two()); }}");
    let link = "-Wl,--allow-shlib-undefined";
    scene.cc("store/p/prog", &source, &[libraries[0], libraries[1], run_path, link]);
}

#[test]
fn an_object_needed_by_two_names_keeps_both() {
    if skip() {
        return;
    }
    for soname in ["-Wl,-soname,libreal.so.1", "-Wl,-soname,liba.so.1", "-DNO_SONAME"] {
        let scene = Scene::new();
        with_two_names(&scene, soname);
        scene.index(&[]);
        let (ran, answers) = scene.same("store/p/prog", &[]);
        assert!(ran.stdout.ends_with("value 2\n"), "{soname}: {ran:?}");
        assert!(answered(&answers, "one.so"), "{answers:?}");
        // By LD_LIBRARY_PATH too, where the directory is snapshotted.
        std::fs::rename(scene.path("store/r"), scene.path("over")).unwrap();
        scene.index(&["over"]);
        let over = scene.text("over");
        let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &over)]);
        assert!(ran.stdout.ends_with("value 2\n"), "{soname}: {ran:?}");
    }
}

#[test]
fn a_library_path_longer_than_a_page() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.cc("store/p/prog", &calls_x(), &["@/store/b/libx.so.1", RUN_PATH]);
    let names: Vec<String> = (0..60).map(|n| format!("{n}-{}", "d".repeat(120))).collect();
    for name in &names {
        std::fs::create_dir(scene.path(name)).unwrap();
    }
    let dirs: Vec<&str> = names.iter().map(String::as_str).collect();
    scene.index(&dirs);
    let long: Vec<String> = names.iter().map(|name| scene.text(name)).collect();
    let (_, answers) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &long.join(":"))]);
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
    // Longer than the kernel accepts for a path.
    let deep = format!("/{}", "d/".repeat(2040));
    let (ran, _) = scene.same("store/p/prog", &[("LD_LIBRARY_PATH", &deep)]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
}

#[test]
fn a_loader_told_to_ignore_run_paths() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    for (dir, value) in [("store/b", 1), ("over", 2)] {
        scene.library(&format!("{dir}/libx.so.1"), "x", value, &[]);
    }
    let library = "int x(void); int y(void) { return x(); }";
    let rpath = "-Wl,--disable-new-dtags,-rpath,@/store/b";
    let soname = "-Wl,-soname,liby.so.1";
    let arguments = ["-shared", "-fPIC", soname, "@/store/b/libx.so.1", rpath];
    scene.cc("store/c/liby.so.1", library, &arguments);
    let source = format!("{SHOW} int y(void); int main(void) {{ show(y()); }}");
    let link = "-Wl,-rpath-link,@/store/b";
    scene.cc("store/p/prog", &source, &["@/store/c/liby.so.1", "-Wl,-rpath,@/store/c", link]);
    scene.index(&["over"]);
    let program = scene.path("store/p/prog");
    let view = elf::parse(std::fs::read(&program).unwrap().as_slice()).unwrap();
    let loader = view.interpreter.unwrap().to_string();
    let (library, over) = (scene.text("store/c/liby.so.1"), scene.text("over"));
    let index = scene.text("index.so");
    let audit = ("LD_AUDIT", index.as_str());
    for (inhibit, value) in [("/nonexistent", "value 1\n"), (library.as_str(), "value 2\n")] {
        let program = program.to_str().unwrap();
        let line = [&loader, "--inhibit-rpath", inhibit, "--library-path", &over, program];
        let plain = start(&line, &[]);
        assert!(plain.stdout.ends_with(value), "{inhibit}: {plain:?}");
        assert_eq!(start(&line, &[audit]), plain, "{inhibit}");
    }
}

#[test]
fn a_run_path_in_strings_of_no_length() {
    if skip() || cfg!(target_pointer_width = "32") {
        return;
    }
    let scene = Scene::new();
    scene.library("mine/libx.so.1", "x", 1, &[]);
    scene.library("store/b/libz.so.1", "z", 1, &[RUN_PATH]);
    std::fs::create_dir(scene.path("over")).unwrap();
    let program = scene.cc("mine/prog", &calls_x(), &["@/mine/libx.so.1", "-Wl,-rpath,@/mine"]);
    const DT_STRSZ: u64 = 10;
    let mut bytes = std::fs::read(&program).unwrap();
    let dynamic = headers(&bytes).into_iter().find(|header| header.kind == 2).unwrap();
    let mut entries = (dynamic.offset..).step_by(16);
    let at = entries.find(|&at| word(&bytes, at) == DT_STRSZ).unwrap();
    bytes[at..at + 8].copy_from_slice(&0x6000_000d_u64.to_ne_bytes());
    std::fs::write(&program, bytes).unwrap();
    scene.index(&["over"]);
    let over = scene.text("over");
    scene.same("mine/prog", &[("LD_LIBRARY_PATH", &over)]);
}

#[test]
fn opening_without_loading_finds_what_is_there_alone() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("store/b/libz.so.1", "z", 2, &[]);
    let plugin = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        int has(const char *name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD) != 0; }"#;
    let linked = ["-shared", "-fPIC", "@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"];
    scene.cc("store/c/plugin.so", plugin, &linked);
    let source = format!(
        r#"{SHOW}
        int main(void) {{
          int value = 0;
          for (int i = 0; i < 2; i++) {{
            value = 10 * value + !!dlopen("libx.so.1", RTLD_NOW | RTLD_NOLOAD);
            value = 10 * value + !!dlopen("libz.so.1", RTLD_NOW | RTLD_NOLOAD);
            void *p = dlopen("{}", RTLD_NOW);
            int (*has)(const char *) = (int (*)(const char *)) dlsym(p, "has");
            value = 10 * value + has("libx.so.1");
            value = 10 * value + has("libz.so.1");
          }}
          show(value);
        }}"#,
        scene.text("store/c/plugin.so")
    );
    scene.cc("store/p/prog", &source, &["-Wl,-rpath,@/store/b"]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 101010\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
}

#[test]
fn threads_that_open_and_close_the_same_libraries() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    for n in 0..4 {
        let function = format!("x{n}");
        scene.library(&format!("store/b/lib{function}.so.1"), &function, n + 1, &[]);
        let source = format!("int {function}(void); int plug(void) {{ return {function}(); }}");
        let link = format!("@/store/b/lib{function}.so.1");
        let arguments = ["-shared", "-fPIC", &link, RUN_PATH];
        scene.cc(&format!("store/c/plug{n}.so"), &source, &arguments);
    }
    let source = format!(
        r#"{SHOW}
        #include <pthread.h>
        #include <errno.h>
        #include <dirent.h>
        static int open_files(void) {{
          int count = 0;
          DIR *dir = opendir("/proc/self/fd");
          while (dir && readdir(dir)) count++;
          if (dir) closedir(dir);
          return count;
        }}
        static void *work(void *at) {{
          long sum = 0;
          for (int i = 0; i < 200; i++) {{
            char name[4096];
            snprintf(name, sizeof name, "{}/plug%d.so", (int) ((long) at + i) % 4);
            errno = 77;
            void *l = dlopen(name, RTLD_NOW);
            if (!l) return (void *) -1;
            sum += ((int (*)(void)) dlsym(l, "plug"))() + (dlopen("libnone.so.1", RTLD_NOW) != 0);
            dlclose(l);
          }}
          return (void *) sum;
        }}
        int main(void) {{
          pthread_t threads[8];
          long sum = 0;
          int before = open_files();
          for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *) i);
          for (int i = 0; i < 8; i++) {{
            void *result;
            pthread_join(threads[i], &result);
            sum += (long) result;
          }}
          printf("%d\n", open_files() - before);
          show(sum);
        }}"#,
        scene.text("store/c")
    );
    scene.cc("store/p/prog", &source, &["-pthread", RUN_PATH]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.starts_with("0\n") && ran.stdout.ends_with("value 4000\n"), "{ran:?}");
    assert!(answered(&answers, "libx3.so.1"), "{answers:?}");
}
