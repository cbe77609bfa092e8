//! Properties of the module itself, and its cost for a program without lookups to answer.

use std::process::Command;

use crate::support::{SHOW, Scene, skip};

#[test]
fn it_needs_nothing_exports_its_interface_and_has_no_relocations() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    let out = scene.module();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/audit");
    let checked = Command::new("make")
        .args(["-s", "-C", sources, "check"])
        .arg(format!("OUT={}", out.display()))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn it_adds_at_most_six_system_calls_to_a_program_it_has_no_answer_for() {
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
    assert!(calmed <= plain + 6, "{calmed} calls, {plain} without the module");
}
