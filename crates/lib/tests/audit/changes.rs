//! Changes while a program runs: each lookup is answered by the files that exist then, as the
//! search would be.

use std::sync::Arc;

use becalm_core::index::{Condition, Directory};
use bstr::BString;

use crate::support::{Ran, SHOW, Scene, answered, skip, start};

/// Starts plainly, and then with an index made in between: the programs here change files that the
/// index depends on, and restore them. Returns the start and the answered lookups.
fn same(
    scene: &Scene,
    line: &[&str],
    environment: &[(&str, &str)],
    dirs: &[&str],
) -> (Ran, Vec<(String, String)>) {
    let plain = start(line, environment);
    scene.index(dirs);
    let (ran, answers) = scene.logged(line, environment);
    assert_eq!(ran, plain, "{answers:#?}");
    (ran, answers)
}

/// The beginning of a program: `value_of(name, function)` by `dlopen`, -1 if it fails.
fn dlopening(body: &str) -> String {
    format!(
        r#"{SHOW}
        #include <string.h>
        #include <unistd.h>
        #include <stdlib.h>
        #include <stdio.h>
        static int value_of(const char *name, const char *function) {{
          void *l = dlopen(name, RTLD_NOW);
          int value = l ? ((int (*)(void)) dlsym(l, function))() : -1;
          if (l) dlclose(l);
          return value;
        }}
        int main(int argc, char **argv) {{ {body} }}"#
    )
}

#[test]
fn a_library_put_into_a_snapshotted_directory_while_the_program_runs_is_found() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("store/b/libold.so.1", "old", 3, &[]);
    scene.library("aside/libx.so.1", "x", 2, &[]);
    std::fs::create_dir(scene.path("over")).unwrap();
    let source = dlopening(
        r#"
        int value = value_of("libold.so.1", "old");
        value = 10 * value + value_of("libx.so.1", "x");
        rename(argv[1], argv[2]);
        value = 10 * value + value_of("libx.so.1", "x");
        rename(argv[2], argv[1]);
        value = 10 * value + value_of("libx.so.1", "x");
        show(value);"#,
    );
    let arguments = ["-Wl,-rpath,@/store/a:@/store/b"];
    scene.cc("store/p/prog", &source, &arguments);
    let links = ["-shared", "-fPIC", "@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"];
    scene.cc("store/p/libplug.so", "", &links);
    let (program, from, to) =
        (scene.text("store/p/prog"), scene.text("aside/libx.so.1"), scene.text("over/libx.so.1"));
    let over = scene.text("over");
    let line = [program.as_str(), &from, &to];
    let (ran, _) = same(&scene, &line, &[("LD_LIBRARY_PATH", &over)], &["over"]);
    assert!(ran.stdout.ends_with("value 3121\n"), "{ran:?}");
    // The same through a plugin of the store, whose needed strings the index answers.
    let source = dlopening(&format!(
        r#"
        const char *plugin = "{}";
        void *l = dlopen(plugin, RTLD_NOW);
        int value = l ? ((int (*)(void)) dlsym(l, "x"))() : -1;
        dlclose(l);
        rename(argv[1], argv[2]);
        l = dlopen(plugin, RTLD_NOW);
        value = 10 * value + (l ? ((int (*)(void)) dlsym(l, "x"))() : -1);
        rename(argv[2], argv[1]);
        show(value);"#,
        scene.text("store/p/libplug.so")
    ));
    scene.cc("store/p/prog2", &source, &arguments);
    let program = scene.text("store/p/prog2");
    let line = [program.as_str(), &from, &to];
    let (ran, answers) = same(&scene, &line, &[("LD_LIBRARY_PATH", &over)], &["over"]);
    assert!(ran.stdout.ends_with("value 12\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "the first time: {answers:?}");
}

#[test]
fn a_program_that_waits_for_a_library_finds_it_once_it_comes() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("aside/libx.so.1", "x", 2, &[]);
    scene.library("store/b/liby.so.1", "y", 4, &[]);
    std::fs::create_dir(scene.path("over")).unwrap();
    let source = dlopening(
        r#"
        int value = value_of("libx.so.1", "x");
        value = 10 * value + value_of("libx.so.1", "x");
        rename(argv[1], argv[2]);
        value = 10 * value + value_of("libx.so.1", "x");
        rename(argv[2], argv[1]);
        show(value);"#,
    );
    scene.cc("store/p/prog", &source, &["@/store/b/liby.so.1", "-Wl,-rpath,@/store/b"]);
    let (program, from, to) =
        (scene.text("store/p/prog"), scene.text("aside/libx.so.1"), scene.text("over/libx.so.1"));
    let line = [program.as_str(), &from, &to];
    let over = scene.text("over");
    let (ran, answers) = same(&scene, &line, &[("LD_LIBRARY_PATH", &over)], &["over"]);
    assert!(ran.stdout.ends_with("value -108\n"), "-1, -1, then 2: {ran:?}");
    assert!(answered(&answers, "liby.so.1"), "{answers:?}");
}

#[test]
fn a_package_deleted_while_the_program_runs_is_searched_for() {
    if skip() {
        return;
    }
    let package = |n: u8| format!("store/0123456789abcdfghijklmnpqrsvwxy{n}-p{n}");
    let (one, two, own) = (package(1), package(2), package(3));
    let scene = Scene::new();
    scene.library(&format!("{one}/lib/libx.so.1"), "x", 1, &[]);
    scene.library(&format!("{two}/lib/libx.so.1"), "x", 2, &[]);
    let rpath = format!("-Wl,-rpath,@/{one}/lib:@/{two}/lib");
    let link = format!("@/{one}/lib/libx.so.1");
    let plugin = format!("{own}/lib/libplug.so");
    scene.cc(&plugin, "int x(void);", &["-shared", "-fPIC", &link, &rpath]);
    let source = dlopening(
        r#"
        int value = 0;
        for (int i = 0; i < 3; i++) {
          void *l = dlopen(argv[1], RTLD_NOW);
          value = 10 * value + (l ? ((int (*)(void)) dlsym(l, "x"))() : 9);
          dlclose(l);
          if (i == 0) rename(argv[2], argv[3]);
          if (i == 1) rename(argv[3], argv[2]);
        }
        show(value);"#,
    );
    scene.cc(&format!("{own}/bin/prog"), &source, &[&rpath]);
    let texts =
        [format!("{own}/bin/prog"), plugin, one, "gone".to_owned()].map(|name| scene.text(&name));
    let line = texts.each_ref().map(String::as_str);
    let (ran, answers) = same(&scene, &line, &[], &[]);
    assert!(ran.stdout.ends_with("value 121\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "the first time: {answers:?}");
}

#[test]
fn a_library_path_written_over_before_the_first_question_counts_as_it_was() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("over/libx.so.1", "x", 9, &[]);
    let links = ["-shared", "-fPIC", "@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"];
    scene.cc("store/c/plugin.so", "int x(void); int plug(void) { return x(); }", &links);
    let source = dlopening(
        r#"
        extern char **environ;
        for (char **e = environ; *e; e++) memset(*e, 'x', strlen(*e));
        show(value_of(argv[1], "plug"));"#,
    );
    // The object is not indexed: its lookups are left to the loader.
    scene.cc("mine/prog", &source, &["-Wl,-rpath,@/mine/none"]);
    let (program, plugin) = (scene.text("mine/prog"), scene.text("store/c/plugin.so"));
    let line = [program.as_str(), &plugin];
    let over = scene.text("over");
    let (ran, answers) = same(&scene, &line, &[("LD_LIBRARY_PATH", &over)], &["over"]);
    assert!(ran.stdout.ends_with("value 9\n"), "{ran:?}");
    assert_eq!(answers, [("libx.so.1".to_owned(), scene.text("over/libx.so.1"))]);
}

#[test]
fn a_program_that_changes_its_directory_between_relative_searches() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("here/rel/libx.so.1", "x", 5, &[]);
    let source = dlopening(
        r#"
        chdir("/");
        int value = value_of("libx.so.1", "x");
        chdir(argv[1]);
        value = 10 * value + value_of("libx.so.1", "x");
        show(value);"#,
    );
    scene.cc("store/p/prog", &source, &["-Wl,-rpath,@/store/b"]);
    let (program, here) = (scene.text("store/p/prog"), scene.text("here"));
    for path in ["rel", "rel:", ":", "./rel/../rel"] {
        same(&scene, &[&program, &here], &[("LD_LIBRARY_PATH", path)], &[]);
    }
}

#[test]
fn a_library_that_may_no_longer_be_read_is_passed_over() {
    let as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("over/libx.so.1", "x", 9, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    scene.index(&["over"]);
    set_mode(&scene, "", 0o755);
    let (program, index, over) =
        (scene.text("store/p/prog"), scene.text("index.so"), scene.text("over"));
    // Root may read it whatever its mode.
    let line = match rustix::process::geteuid().is_root() {
        true if !std::path::Path::new("/usr/bin/setpriv").exists() => {
            becalm_testing::skip("no setpriv (Debian: util-linux)");
            return;
        }
        true => [&as_nobody[..], &[program.as_str()]].concat(),
        false => vec![program.as_str()],
    };
    let path = [("PATH", "/usr/bin:/bin"), ("LD_LIBRARY_PATH", over.as_str())];
    let calmed = [&path[..], &[("LD_AUDIT", index.as_str())]].concat();
    assert!(start(&line, &calmed).stdout.ends_with("value 9\n"));
    // The directory's own fingerprint is unchanged.
    set_mode(&scene, "over/libx.so.1", 0o600);
    if !rustix::process::geteuid().is_root() {
        set_mode(&scene, "over/libx.so.1", 0o000);
    }
    let plain = start(&line, &path);
    assert!(plain.stdout.ends_with("value 1\n"), "{plain:?}");
    assert_eq!(start(&line, &calmed), plain);
}

/// A package that only its owner may search precedes one for everybody.
#[test]
fn a_library_that_another_user_may_not_reach_is_passed_over() {
    if skip() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        becalm_testing::skip("only root can index what a program's user may not read");
        return;
    }
    for (flags, closed, mode) in [
        ("-Wl,--enable-new-dtags", "store/abcdfghijklmnpqrsvwxyz0123456789-one", 0o700),
        ("-Wl,--disable-new-dtags", "store/abcdfghijklmnpqrsvwxyz0123456789-one", 0o700),
        (
            "-Wl,--enable-new-dtags",
            "store/abcdfghijklmnpqrsvwxyz0123456789-one/lib/libx.so.1",
            0o600,
        ),
    ] {
        let scene = Scene::new();
        let packages =
            ["abcdfghijklmnpqrsvwxyz0123456789-one", "0123456789abcdfghijklmnpqrsvwxyz-two"];
        let [one, two] = packages.map(|package| format!("store/{package}/lib"));
        scene.library(&format!("{one}/libx.so.1"), "x", 9, &[]);
        scene.library(&format!("{two}/libx.so.1"), "x", 1, &[]);
        let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
        let program = "store/3456789abcdfghijklmnpqrsvwxyz012-p/bin/prog";
        let run_path = format!("-Wl,-rpath,@/{one}:@/{two}");
        scene.cc(program, &source, &[&format!("@/{one}/libx.so.1"), flags, &run_path]);
        set_mode(&scene, "", 0o755);
        set_mode(&scene, closed, mode);
        scene.index(&[]);
        let (program, index) = (scene.text(program), scene.text("index.so"));
        let nobody =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", &program];
        let path = ("PATH", "/usr/bin:/bin");
        for (line, value) in [(&nobody[5..], "value 9\n"), (&nobody[..], "value 1\n")] {
            let plain = start(line, &[path]);
            assert!(plain.stdout.ends_with(value), "{plain:?}");
            assert_eq!(start(line, &[path, ("LD_AUDIT", &index)]), plain, "{closed} {flags}");
        }
    }
}

fn set_mode(scene: &Scene, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(scene.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_log_that_nobody_reads_holds_no_program_up() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    scene.index(&[]);
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("fifo"), 0o666.into()).unwrap();
    let (program, index) = (scene.text("store/p/prog"), scene.text("index.so"));
    let becalm = format!("log:{}", scene.text("fifo"));
    let line = ["timeout", "-s", "KILL", "60", &program];
    let path = ("PATH", "/usr/bin:/bin");
    let plain = start(&line, &[path]);
    assert_eq!(start(&line, &[path, ("LD_AUDIT", &index), ("BECALM", &becalm)]), plain);
}

/// The module caches the results of the first conditions; those beyond are checked each time.
#[test]
fn a_guard_beyond_those_that_are_remembered_is_believed_only_while_it_holds() {
    if skip() {
        return;
    }
    const BEFORE: u32 = 5000;
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.library("aside/libx.so.1", "x", 2, &[]);
    std::fs::create_dir(scene.path("out")).unwrap();
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    let arguments = ["@/store/b/libx.so.1", "-Wl,-rpath,@/out:@/store/b"];
    scene.cc("store/p/prog", &source, &arguments);
    let indexed = scene.index(&[]);
    let machine = &indexed.machines[0];
    let mut index = machine.index.clone();
    // Conditions are numbered in this order: those of directories are before those of answers.
    let none = |n| {
        let path = BString::from(format!("/none/{n}"));
        let condition = Arc::new(Condition::Absent(path.clone()));
        Directory { path, condition, names: None }
    };
    index.directories.splice(0..0, (0..BEFORE).map(none));
    let own = machine.index.objects.iter().flat_map(|object| &object.edges);
    let own: Vec<_> = own.flat_map(|edge| &edge.conditions).collect();
    let numbered = index.conditions();
    assert!(!own.is_empty() && own.iter().all(|it| !numbered[..BEFORE as usize].contains(it)));
    scene.write_index(&index, machine.target);
    let (ran, answers) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 1\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
    std::fs::copy(scene.path("aside/libx.so.1"), scene.path("out/libx.so.1")).unwrap();
    let (ran, _) = scene.same("store/p/prog", &[]);
    assert!(ran.stdout.ends_with("value 2\n"), "{ran:?}");
}

/// At the end of a process the program is closed first. Its libraries' destructors still open libraries,
/// by themselves and through a function of the program.
#[test]
fn destructors_open_libraries_after_the_program_is_closed() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libplug.so", "plug", 7, &[]);
    let ending = |found: &str| {
        format!(
            r#"#include <dlfcn.h>
            #include <stdio.h>
            static int (*callback)(void);
            void at_end(int (*of)(void)) {{ callback = of; }}
            __attribute__((destructor)) static void end(void) {{
              void *own = dlopen("libplug.so", RTLD_NOW), *absent = dlopen("libabsent.so", RTLD_NOW);
              printf("{found} %d%d %d\n", own != 0, absent != 0, callback ? callback() : -1);
            }}"#
        )
    };
    scene.cc("store/a/libend.so", &ending("end"), &["-shared", "-fPIC", "-Wl,-soname,libend.so"]);
    let program = r#"
        #include <dlfcn.h>
        void at_end(int (*)(void));
        static int opens(void) {
          void *plug = dlopen("libplug.so", RTLD_NOW), *absent = dlopen("libabsent.so", RTLD_NOW);
          return 10 * (absent != 0) + (plug ? ((int (*)(void)) dlsym(plug, "plug"))() : 0);
        }
        int main(void) { at_end(opens); return 0; }"#;
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let tags = format!("-Wl,{tags},-rpath,@/store/a:@/store/b");
        scene.cc("store/p/prog", program, &["@/store/a/libend.so", &tags]);
        scene.index(&[]);
        let (ran, answers) = scene.same("store/p/prog", &[]);
        // The library has no run path: only a DT_RPATH of the program serves it.
        let own = u8::from(tags.contains("disable"));
        assert_eq!((ran.code, ran.stdout), (0, format!("end {own}0 7\n")), "{answers:#?}");
        assert!(answered(&answers, "libend.so"), "{answers:#?}");
    }
}
