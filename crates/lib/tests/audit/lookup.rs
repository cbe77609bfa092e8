//! The module's reader of the table, as an ordinary program (`crates/audit/module/tests/lookup.c`): it
//! returns what was written, and with damaged tables it neither reads out of bounds nor answers
//! wrongly.

use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_core::index::split;

use crate::support::{Scene, skip};

/// Compiles the reader, with sanitizers if the compiler has them.
fn reader(scene: &Scene, sanitize: bool) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/module/tests/lookup.c");
    let out = scene.path("lookup");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    if sanitize {
        cc.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    let made = cc.arg("-o").args([&out, &source]).output().unwrap();
    assert!(made.status.success() || sanitize, "{}", String::from_utf8_lossy(&made.stderr));
    made.status.success().then_some(out)
}

fn scene() -> Scene {
    let scene = Scene::new();
    for (dir, function) in [("a", "a"), ("b", "b"), ("c", "c")] {
        scene.library(&format!("store/{dir}/lib{dir}.so"), function, 1, &[]);
    }
    let libraries = ["@/store/a/liba.so", "@/store/b/libb.so", "@/store/c/libc.so"];
    let rpath = "-Wl,-rpath,@/store/a:@/store/b:@/store/c";
    let main = "int main(void) { return 0; }";
    scene.cc("store/p/prog", main, &[libraries[0], libraries[1], libraries[2], rpath]);
    scene.index(&["store/a"]);
    let file = std::fs::read(scene.path("index.so")).unwrap();
    std::fs::write(scene.path("table"), split(&file).unwrap().1).unwrap();
    scene
}

fn ask(reader: &Path, scene: &Scene, arguments: &[&str]) -> String {
    let table = scene.path("table");
    let ran = Command::new(reader)
        .arg(table)
        .args(arguments)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    text
}

#[test]
fn it_finds_what_was_written_and_nothing_else() {
    if skip() {
        return;
    }
    let scene = scene();
    let reader = reader(&scene, false).unwrap();
    let program = scene.text("store/p/prog");
    let answer = |object: &str, needed: &str| ask(&reader, &scene, &["answer", object, needed]);
    assert_eq!(answer(&program, "libb.so"), scene.text("store/b/libb.so"));
    assert_eq!(answer(&program, "libd.so"), "");
    assert_eq!(answer(&program[1..], "libb.so"), "");
    assert_eq!(answer("", "libb.so"), "");
}

#[test]
fn damage_gives_no_wrong_answer_and_no_step_outside() {
    if skip() {
        return;
    }
    let scene = scene();
    let reader = reader(&scene, true).or_else(|| {
        becalm_testing::skip("the C compiler has no sanitizers");
        reader(&scene, false)
    });
    let said = ask(&reader.unwrap(), &scene, &["damage", "4000", "1"]);
    assert!(said.contains("none wrongly"), "{said}");
}
