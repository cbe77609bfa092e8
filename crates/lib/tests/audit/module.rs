//! Properties of the module itself, and its cost for a program without lookups to answer.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::support::{SHOW, Scene, skip};

#[test]
fn it_needs_nothing_exports_its_interface_and_has_no_relocations() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let out = scene.module();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../audit/module");
    let checked = Command::new("make")
        .args(["-s", "-C", sources, "check"])
        .arg(format!("OUT={}", out.display()))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// Prints whether the module is mapped.
const MAPPED: &str = r#"
#include <stdio.h>
#include <string.h>
int main(void) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, "index.so") != NULL)
      return puts("kept") < 0;
  return puts("unloaded") < 0;
}
"#;

#[test]
fn it_is_unloaded_by_programs_that_reach_nothing_of_the_index() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let known = format!(
        "int x(void);\n#define main(v) main(void) {{ x(); return show(); }} int show(v)\n{MAPPED}"
    );
    scene.cc("store/p/prog", &known, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    scene.cc("other", MAPPED, &[]);
    scene.cc("run-path", MAPPED, &["-Wl,-rpath,@/store/b"]);
    let opens = "#include <dlfcn.h>\nvoid *open(void) { return dlopen(\"x\", 1); }\n";
    scene.cc("opens", &format!("{opens}{MAPPED}"), &[]);
    scene.index(&[]);
    symlink(scene.path("store/p/prog"), scene.path("link")).unwrap();
    symlink(scene.path("other"), scene.path("link-to-other")).unwrap();
    for (script, program) in [("script", "store/p/prog"), ("script-of-other", "other")] {
        std::fs::write(scene.path(script), format!("#!{}\n", scene.text(program))).unwrap();
        std::fs::set_permissions(scene.path(script), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let index = scene.text("index.so");
    let ends = |program: &str, variable: (&str, &str)| {
        let ran = scene.start(program, &[("LD_AUDIT", &index), variable]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{program}");
        ran.stdout.trim().to_owned()
    };
    for program in ["other", "link-to-other", "script-of-other"] {
        assert_eq!(ends(program, ("X", "1")), "unloaded", "{program}");
        for name in ["BECALM", "LD_LIBRARY_PATH"] {
            assert_eq!(ends(program, (name, "/none")), "kept", "{program} with {name}");
        }
    }
    for program in ["store/p/prog", "link", "script", "run-path", "opens"] {
        assert_eq!(ends(program, ("X", "1")), "kept", "{program}");
    }
}

/// Six to map it, one that finds out whether the program's path is a link, and one that unmaps it again.
#[test]
fn it_adds_at_most_eight_system_calls_to_a_program_it_has_no_answer_for() {
    if skip() {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        becalm_testing::skip("no strace (Debian: strace)");
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libx.so.1", "x", 1, &[]);
    let source = format!("{SHOW} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/p/prog", &source, &["@/store/b/libx.so.1", "-Wl,-rpath,@/store/b"]);
    scene.cc("other", "int main(void) { return 0; }", &[]);
    scene.index(&[]);
    let calls = |environment: &[String]| {
        let out = scene.path("calls");
        let mut strace = Command::new("strace");
        strace.arg("-o").arg(&out);
        for variable in environment {
            strace.args(["-E", variable]);
        }
        let ran = strace.arg(scene.path("other")).env_clear().output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        std::fs::read_to_string(out).unwrap().lines().count()
    };
    let plain = calls(&[]);
    let calmed = calls(&[format!("LD_AUDIT={}", scene.text("index.so"))]);
    assert!(calmed <= plain + 8, "{calmed} calls, {plain} without the module");
}
