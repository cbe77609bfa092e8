//! Kinds of programs that run in an environment with an index: each starts as without it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use becalm_host::OsFs;
use becalm_host::index_store::{IndexOptions, index_stores};
use rustix::fs::XattrFlags;

use crate::support::{Ran, SHOW, Scene, answered, answers, skip, start};

/// A store with a library, an index of it, and a program that needs the library.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    scene.cc("store/p/prog", &program("show(x());"), &LINKED);
    scene
}

const LINKED: [&str; 2] = ["@/store/b/libx.so.1", "-Wl,-rpath,@/store/a:@/store/b"];

fn program(body: &str) -> String {
    let includes = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n";
    format!("{SHOW}{includes} int x(void); int main(int argc, char **argv) {{ {body} }}")
}

/// Starts a command line with and without the index; asserts that nothing differs.
fn same(scene: &Scene, line: &[&str], environment: &[(&str, &str)]) -> Ran {
    let index = scene.text("index.so");
    let plain = start(line, environment);
    let mut calmed = environment.to_vec();
    calmed.push(("LD_AUDIT", &index));
    assert_eq!(start(line, &calmed), plain, "{line:?}");
    plain
}

/// True if a tool is missing.
fn lacks(tool: &str, package: &str) -> bool {
    let is_there =
        Command::new(tool).arg("--version").output().is_ok_and(|ran| ran.status.success());
    !is_there && becalm_testing::skipped(&format!("no {tool} (Debian: {package})"))
}

#[test]
fn a_set_uid_program_and_one_with_capabilities_ignore_the_module() {
    if skip() || lacks("setpriv", "util-linux") {
        return;
    }
    let scene = scene();
    if !rustix::process::geteuid().is_root() {
        becalm_testing::skip("not root: nobody can be given a set-uid program of root's");
        return;
    }
    scene.index(&[]);
    std::fs::set_permissions(scene.path(""), Permissions::from_mode(0o777)).unwrap();
    let (plain, special) = (scene.path("store/p/prog"), scene.path("store/p/special"));
    let capable = scene.path("store/p/capable");
    std::fs::copy(&plain, &special).unwrap();
    std::fs::copy(&plain, &capable).unwrap();
    std::fs::set_permissions(&special, Permissions::from_mode(0o4755)).unwrap();
    let mut programs = vec![("store/p/prog", true), ("store/p/special", false)];
    // struct vfs_cap_data of linux/capability.h: revision 2, effective; CAP_NET_BIND_SERVICE.
    let words = [0x0200_0001_u32, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
    let set = rustix::fs::setxattr(&capable, "security.capability", &words, XattrFlags::empty());
    match set {
        Ok(()) => programs.push(("store/p/capable", false)),
        Err(error) => becalm_testing::skip(&format!("no file capabilities here: {error}")),
    }
    let as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    for (file, is_asked) in programs {
        let program = scene.text(file);
        let line = [&as_nobody[..], &[program.as_str()]].concat();
        let path = ("PATH", "/usr/bin:/bin");
        let ran = same(&scene, &line, &[path]);
        assert!(ran.stdout.ends_with("value 1\n") && ran.stderr.is_empty(), "{ran:?}");
        let log = scene.path(&format!("log-{is_asked}"));
        // setpriv writes to it first, as root.
        std::fs::write(&log, "").unwrap();
        std::fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
        let becalm = format!("log:{}", log.display());
        start(&line, &[path, ("LD_AUDIT", &scene.text("index.so")), ("BECALM", &becalm)]);
        assert_eq!(answered(&answers(&log), "libx.so.1"), is_asked, "{file}");
    }
}

#[test]
fn a_static_program_and_one_for_musl() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.index(&[]);
    let source = "#include <stdio.h>\nint main(void) { puts(\"plain\"); return 5; }\n";
    let program = scene.cc("static", source, &["-static"]);
    let ran = same(&scene, &[program.to_str().unwrap()], &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, "plain\n"));
    if !lacks("musl-gcc", "musl-tools") {
        let out = scene.text("musl");
        let made = Command::new("musl-gcc").args(["-o", &out, &scene.text("source.c")]).output();
        assert!(made.unwrap().status.success());
        let ran = same(&scene, &[&out], &[]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (5, "plain\n", ""));
    }
}

#[test]
fn a_server_that_forks_children_which_load_libraries() {
    if skip() {
        return;
    }
    let scene = scene();
    let plugin = "int x(void); int plug(void) { return x(); }";
    let arguments = [&["-shared", "-fPIC"], &LINKED[..]].concat();
    scene.cc("store/c/plugin.so", plugin, &arguments);
    let source = r#"
        for (int i = 0; i < 4; i++) {
          pid_t child = fork();
          if (child == 0) {
            void *l = dlopen("PLUGIN", RTLD_NOW);
            void *n = dlopen("libnone.so.1", RTLD_NOW);
            _exit(n || !l ? 99 : ((int (*)(void)) dlsym(l, "plug"))() + i);
          }
          int status;
          waitpid(child, &status, 0);
          printf("child %d: %d\n", i, WEXITSTATUS(status));
          fflush(stdout);
        }
        show(0);"#;
    let source = source.replace("PLUGIN", &scene.text("store/c/plugin.so"));
    scene.cc("store/p/server", &program(&source), &["-Wl,-rpath,@/store/a:@/store/b"]);
    scene.index(&[]);
    let (ran, answers) = scene.same("store/p/server", &[]);
    assert!(ran.stdout.contains("child 3: 4\n"), "{ran:?}");
    assert!(answered(&answers, "libx.so.1"), "{answers:?}");
}

#[test]
fn audit_modules_of_the_users_and_of_the_programs_own() {
    if skip() {
        return;
    }
    let scene = scene();
    // Prints the first lookup that it sees.
    let module = r#"
        #include <unistd.h>
        #include <string.h>
        #include <stdint.h>
        unsigned la_version(unsigned v) { return v; }
        unsigned la_objopen(void *m, long n, uintptr_t *c) { return 0; }
        char *la_objsearch(const char *name, uintptr_t *c, unsigned flag) {
          if (flag == 1) { write(2, name, strlen(name)); write(2, "\n", 1); }
          return (char *) name;
        }"#;
    scene.cc("theirs.so", module, &["-shared", "-fPIC"]);
    let arguments = [LINKED[0], LINKED[1], "-Wl,--audit=@/theirs.so"];
    scene.cc("store/p/audited", &program("show(x());"), &arguments);
    scene.index(&[]);
    let (theirs, index) = (scene.text("theirs.so"), scene.text("index.so"));
    let ours_too = [format!("{theirs}:{index}"), format!("{index}:{theirs}")];
    let by_variable = scene.start("store/p/prog", &[("LD_AUDIT", &theirs)]);
    assert!(by_variable.stderr.contains("libx.so.1\n"), "{by_variable:?}");
    // If their module is called first it sees the loader's lookups, if second our answers.
    let calmed = scene.start("store/p/prog", &[("LD_AUDIT", &ours_too[0])]);
    assert_eq!(calmed, by_variable);
    let second = scene.start("store/p/prog", &[("LD_AUDIT", &ours_too[1])]);
    assert_eq!((second.code, &second.stdout), (0, &by_variable.stdout));
    assert!(second.stderr.contains("libx.so.1\n"), "{second:?}");
    let own = scene.start("store/p/audited", &[]);
    let calmed = scene.start("store/p/audited", &[("LD_AUDIT", &index)]);
    assert_eq!((calmed.code, &calmed.stdout), (own.code, &own.stdout));
    let heard = |ran: &Ran| {
        ran.stderr
            .lines()
            .map(|line| line.rsplit('/').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(heard(&calmed), heard(&own), "the program's own module is asked as before");
}

#[test]
fn a_module_that_acts_on_the_files_that_the_loader_tries_does_so_with_an_index() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.library("other/libx.so.1", "x", 7, &[]);
    let module = |name: &str, answer: &str| {
        let source = r#"
            #include <string.h>
            #include <stdint.h>
            unsigned la_version(unsigned v) { return v; }
            char *la_objsearch(const char *name, uintptr_t *c, unsigned flag) {
              if (flag != 1 && strstr(name, "/store/b/libx.so.1")) return ANSWER;
              return (char *) name;
            }"#;
        scene.cc(name, &source.replace("ANSWER", answer), &["-shared", "-fPIC"]);
        scene.text(name)
    };
    let other = format!("\"{}\"", scene.text("other/libx.so.1"));
    let (redirects, rejects) = (module("redirects.so", &other), module("rejects.so", "0"));
    scene.index(&[]);
    let index = scene.text("index.so");
    std::fs::copy(&index, scene.path("second.so")).unwrap();
    let second = scene.text("second.so");
    let start = |audit: &[&str]| scene.start("store/p/prog", &[("LD_AUDIT", &audit.join(":"))]);
    for theirs in [&redirects, &rejects] {
        let plain = start(&[theirs]);
        assert_ne!(plain, scene.start("store/p/prog", &[]), "the module changes the start");
        for audit in [[theirs, &index], [&index, theirs]] {
            assert_eq!(start(&audit.map(String::as_str)), plain, "{audit:?}");
        }
    }
    // Two indexes do not keep each other from answering.
    let log = scene.path("log");
    let audit = [second.as_str(), index.as_str()].join(":");
    let logs = format!("log:{}", log.display());
    scene.start("store/p/prog", &[("LD_AUDIT", &audit), ("BECALM", &logs)]);
    assert!(answered(&answers(&log), "libx.so.1"));
}

#[test]
fn gdb_stops_in_a_library_of_a_calmed_program() {
    if skip() || lacks("gdb", "gdb") {
        return;
    }
    let scene = scene();
    scene.index(&[]);
    let (program, index) = (scene.text("store/p/prog"), scene.text("index.so"));
    let gdb = |audit: &str| {
        let line = [
            "gdb",
            "-nx",
            "-batch",
            "-ex",
            "set debuginfod enabled off",
            "-ex",
            audit,
            "-ex",
            "set breakpoint pending on",
            "-ex",
            "break x",
            "-ex",
            "run",
            "-ex",
            "bt",
            "-ex",
            "continue",
            &program,
        ];
        start(&line, &[("PATH", "/usr/bin:/bin"), ("HOME", "/dev/null/home")])
    };
    let plain = gdb("set environment BECALM_NOTHING 1");
    if !plain.stdout.contains("exited normally") {
        becalm_testing::skip("gdb may not trace here");
        return;
    }
    let calmed = gdb(&format!("set environment LD_AUDIT {index}"));
    for ran in [&plain, &calmed] {
        assert!(ran.stdout.contains("Breakpoint 1, "), "{ran:?}");
        assert!(ran.stdout.contains("libx.so.1"), "{ran:?}");
        assert!(
            ran.stdout.contains("value 1\n") && ran.stdout.contains("exited normally"),
            "{ran:?}"
        );
    }
}

#[test]
fn valgrind_and_an_asan_build() {
    if skip() {
        return;
    }
    let scene = scene();
    let source = program("int *p = malloc(40 + 4 * argc); p[argc] = x(); show(p[argc]); free(p);");
    let folder = scene.path("probe.c");
    std::fs::write(&folder, "int main(void) { return 0; }").unwrap();
    let probe = Command::new("cc")
        .args(["-fsanitize=address", "-o"])
        .arg(scene.path("probe"))
        .arg(&folder)
        .output();
    let has_asan = probe.unwrap().status.success();
    if has_asan {
        let arguments = [LINKED[0], LINKED[1], "-fsanitize=address", "-g"];
        scene.cc("store/p/asan", &source, &arguments);
    }
    scene.index(&[]);
    if has_asan {
        let (ran, answers) = scene.same("store/p/asan", &[("ASAN_OPTIONS", "detect_leaks=0")]);
        assert!(ran.stdout.ends_with("value 1\n") && answered(&answers, "libx.so.1"), "{ran:?}");
    } else {
        becalm_testing::skip("the C compiler has no address sanitizer");
    }
    if !lacks("valgrind", "valgrind") {
        let program = scene.text("store/p/prog");
        let line = ["valgrind", "-q", "--run-libc-freeres=no", "--error-exitcode=9", &program];
        let ran = same(&scene, &line, &[("PATH", "/usr/bin:/bin")]);
        assert!(ran.code == 0 && ran.stdout.contains("value 1\n"), "{ran:?}");
    }
}

#[test]
fn python_imports_extension_modules() {
    if skip() || lacks("/usr/bin/python3", "python3") {
        return;
    }
    let scene = scene();
    for dir in ["d0", "d1", "d2"] {
        std::fs::create_dir(scene.path(dir)).unwrap();
    }
    scene.index(&["d0", "d1", "d2"]);
    let script = "import ssl, ctypes, _decimal, bz2, lzma, zlib\n\
        print(ssl.OPENSSL_VERSION, ctypes.CDLL('libm.so.6')._name, _decimal.__file__)\n\
        maps = {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}\n\
        print(sorted(name for name in maps if not name.endswith('index.so')))";
    let dirs = ["d0", "d1", "d2"].map(|dir| scene.text(dir)).join(":");
    let line = ["/usr/bin/python3", "-c", script];
    let ran = same(&scene, &line, &[("LD_LIBRARY_PATH", &dirs)]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (_, answers) = scene.logged(&line, &[("LD_LIBRARY_PATH", &dirs)]);
    assert!(answered(&answers, "libc.so.6"), "{answers:?}");
}

#[test]
fn java_starts() {
    if skip() || lacks("java", "default-jre-headless") {
        return;
    }
    let scene = scene();
    std::fs::create_dir(scene.path("d0")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(250));
    let found = Command::new("sh").args(["-c", "command -v java"]).output().unwrap();
    let java = String::from_utf8(found.stdout).unwrap();
    let java = Path::new(java.trim()).canonicalize().unwrap();
    // The files below bin/ and lib/ of the runtime; nothing is written there.
    let (stores, dirs) = ([java.ancestors().nth(2).unwrap().to_owned()], [scene.path("d0")]);
    let options = IndexOptions { stores: &stores, dirs: &dirs, ..IndexOptions::default() };
    let indexed = index_stores(&OsFs::new(), options);
    scene.write_index(&indexed.machines[0].index, indexed.machines[0].target);

    let java = java.to_str().unwrap();
    let line = [java, "-Xint", "-Xshare:off", "-XshowSettings:properties", "-version"];
    let d0 = scene.text("d0");
    for environment in [&[][..], &[("LD_LIBRARY_PATH", d0.as_str())]] {
        let ran = same(&scene, &line, environment);
        assert!(ran.code == 0 && ran.stderr.contains("java.library.path"), "{ran:?}");
        let (_, answers) = scene.logged(&line, environment);
        let own = |(_, path): &(String, String)| Path::new(path).starts_with(&stores[0]);
        assert!(answers.iter().any(own), "{answers:?}");
    }
}

#[test]
fn without_proc_or_with_one_that_is_read_only() {
    if skip() || lacks("unshare", "util-linux") {
        return;
    }
    let scene = scene();
    std::fs::create_dir(scene.path("profile")).unwrap();
    let link = scene.path("profile/prog");
    std::os::unix::fs::symlink(scene.path("store/p/prog"), &link).unwrap();
    scene.index(&[]);
    // The index is in the program's own environment only.
    let run = |mount: &str, audit: &str| {
        let script = format!("{mount} && exec env {audit} {}", link.display());
        let user = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
        start(&["unshare", user, "sh", "-c", &script], &[("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")])
    };
    let audit = format!("LD_AUDIT={}", scene.text("index.so"));
    for mount in ["mount -t tmpfs none /proc", "mount -o remount,ro,bind /proc"] {
        let plain = run(mount, "");
        if plain.code != 0 {
            becalm_testing::skip(&format!("{mount} is not permitted: {}", plain.stderr));
            return;
        }
        assert_eq!(run(mount, &audit), plain, "{mount}");
    }
}

#[test]
fn an_index_that_goes_while_programs_run_or_is_not_there() {
    if skip() {
        return;
    }
    let scene = scene();
    scene.index(&[]);
    let source = program(
        r#"unlink(argv[1]);
        void *l = dlopen("libx.so.1", RTLD_NOW);
        show(l ? ((int (*)(void)) dlsym(l, "x"))() : -1);"#,
    );
    scene.cc("store/p/unlinks", &source, &["-Wl,-rpath,@/store/a:@/store/b"]);
    scene.index(&[]);
    let (program, index) = (scene.text("store/p/unlinks"), scene.text("index.so"));
    let plain = start(&[program.as_str(), "/nonexistent"], &[]);
    let calmed = start(&[program.as_str(), &index], &[("LD_AUDIT", &index)]);
    assert!(plain.stdout.ends_with("value 1\n"), "{plain:?}");
    assert_eq!(calmed, plain);
    assert!(!Path::new(&index).exists());
}
