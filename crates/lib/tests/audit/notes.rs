//! Resolution notes of objects that are not indexed.

use crate::support::{SHOW, Scene, answered, headers, skip};

/// A resolution note, as assembler: `libx.so.1` is at `path`.
fn note(path: &str) -> String {
    format!(
        r#"asm(".section .note.nixos.ldcache,\"a\",%note\n .balign 4\n .long 6, 2f - 1f, 0x63a86cb6\n"
            ".asciz \"NixOS\"\n .balign 4\n 1: .asciz \"libx.so.1\"\n .asciz \"{path}\"\n .byte 0\n"
            "2: .balign 4\n .previous");"#
    )
}

#[test]
fn the_note_of_an_object_nobody_indexed_is_honoured() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    scene.index(&[]);
    scene.library("store/mine/libx.so.1", "x", 6, &[]);
    let rpath = "-Wl,-rpath,@/store/none:@/store/mine";
    let noted = note(&format!("={}", scene.text("store/mine/libx.so.1")));
    let program = format!("{SHOW} {noted} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/mine/prog", &program, &["@/store/mine/libx.so.1", rpath]);
    let library = format!("{noted} int x(void); int y(void) {{ return x(); }}");
    let soname = "-Wl,-soname,liby.so.1";
    let arguments = ["-shared", "-fPIC", soname, "@/store/mine/libx.so.1", rpath];
    scene.cc("store/mine/liby.so.1", &library, &arguments);
    let source = format!("{SHOW} int y(void); int main(void) {{ show(y()); }}");
    scene.cc("store/mine/through", &source, &["@/store/mine/liby.so.1", rpath]);
    let gone = note("=/nonexistent/libx.so.1");
    let program = format!("{SHOW} {gone} int x(void); int main(void) {{ show(x()); }}");
    scene.cc("store/mine/stale", &program, &["@/store/mine/libx.so.1", rpath]);
    for (program, is_answered) in
        [("store/mine/prog", true), ("store/mine/through", true), ("store/mine/stale", false)]
    {
        let (ran, answers) = scene.same(program, &[]);
        assert!(ran.stdout.ends_with("value 6\n"), "{ran:?}");
        assert_eq!(answered(&answers, "libx.so.1"), is_answered, "{program}: {answers:?}");
    }
    scene.library("over/libx.so.1", "x", 9, &[]);
    let (ran, _) = scene.same("store/mine/prog", &[("LD_LIBRARY_PATH", &scene.text("over"))]);
    assert!(ran.stdout.ends_with("value 9\n"), "{ran:?}");
}

#[test]
fn a_directory_outside_of_the_stores_declines_the_note() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    scene.index(&[]);
    scene.library("store/mine/libx.so.1", "x", 7, &[]);
    std::fs::create_dir(scene.path("mutable")).unwrap();
    std::fs::create_dir(scene.path("store/mine/bin")).unwrap();
    // The note that patchelf writes while the directories before it lack the library.
    let noted = note(&format!("={}", scene.text("store/mine/libx.so.1")));
    let source = format!("{SHOW} {noted} int x(void); int main(void) {{ show(x()); }}");
    for (number, (run_path, is_answered)) in [
        ("@/mutable:@/store/mine", false),
        ("@/store/none:@/mutable:@/store/mine", false),
        ("@/store/../mutable:@/store/mine", false),
        ("$ORIGIN/../../../mutable:@/store/mine", false),
        ("@/store/none:@/store/mine/:@/mutable", true),
    ]
    .into_iter()
    .enumerate()
    {
        let program = format!("store/mine/bin/prog{number}");
        let arguments = ["@/store/mine/libx.so.1", &format!("-Wl,-rpath,{run_path}")];
        scene.cc(&program, &source, &arguments);
        let (ran, answers) = scene.same(&program, &[]);
        assert!(ran.stdout.ends_with("value 7\n"), "{run_path}: {ran:?}");
        assert_eq!(answered(&answers, "libx.so.1"), is_answered, "{run_path}: {answers:?}");
        scene.library("mutable/libx.so.1", "x", 42, &[]);
        let (ran, _) = scene.same(&program, &[]);
        let expected = if is_answered { "value 7\n" } else { "value 42\n" };
        assert!(ran.stdout.ends_with(expected), "{run_path}: {ran:?}");
        std::fs::remove_file(scene.path("mutable/libx.so.1")).unwrap();
    }
}

#[test]
fn a_note_is_not_heard_where_a_dt_rpath_is_searched_before_library_path() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    scene.library("mine/libx.so.1", "x", 6, &[]);
    scene.library("over/libx.so.1", "x", 9, &[]);
    let noted = note(&format!("={}", scene.text("mine/libx.so.1")));
    let program = format!("{SHOW} {noted} int x(void); int main(void) {{ show(x()); }}");
    let rpath = "-Wl,--disable-new-dtags,-rpath,@/none:@/mine";
    scene.cc("mine/prog", &program, &["@/mine/libx.so.1", rpath]);
    scene.index(&["over"]);
    let over = scene.text("over");
    let (ran, _) = scene.same("mine/prog", &[("LD_LIBRARY_PATH", &over)]);
    assert!(ran.stdout.ends_with("value 6\n"), "{ran:?}");
    let (_, answers) = scene.same("mine/prog", &[]);
    assert_eq!(answers, []);
}

#[test]
fn a_note_that_names_what_the_loader_would_refuse_is_passed_over() {
    if skip() {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    scene.library("store/mine/libx.so.1", "x", 6, &[]);
    scene.index(&[]);
    std::fs::create_dir_all(scene.path("other/dir")).unwrap();
    let mut bytes = std::fs::read(scene.path("store/mine/libx.so.1")).unwrap();
    bytes[18] ^= 0x55;
    std::fs::write(scene.path("other/machine"), &bytes).unwrap();
    std::fs::write(scene.path("other/text"), "no object").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.path("other/fifo"), 0o666.into()).unwrap();
    for (named, is_answered) in [
        ("store/mine/libx.so.1", true),
        ("other/machine", false),
        ("other/text", false),
        ("other/dir", false),
        ("other/fifo", false),
    ] {
        let noted = note(&format!("={}", scene.text(named)));
        let program = format!("{SHOW} {noted} int x(void); int main(void) {{ show(x()); }}");
        let rpath = "-Wl,-rpath,@/store/none:@/store/mine";
        scene.cc("store/mine/prog", &program, &["@/store/mine/libx.so.1", rpath]);
        let (ran, answers) = scene.same("store/mine/prog", &[]);
        assert!(ran.stdout.ends_with("value 6\n"), "{named}: {ran:?}");
        assert_eq!(answered(&answers, "libx.so.1"), is_answered, "{named}: {answers:?}");
    }
}

#[test]
fn a_note_segment_that_is_not_mapped_is_not_read() {
    if skip() || cfg!(target_pointer_width = "32") {
        return;
    }
    let scene = Scene::new();
    scene.library("store/b/libz.so.1", "z", 1, &["-Wl,-rpath,@/store/b"]);
    scene.library("mine/libx.so.1", "x", 6, &[]);
    let library = "int x(void); int y(void) { return x(); }";
    let soname = "-Wl,-soname,liby.so.1";
    // A build id for a note.
    let arguments = ["-shared", "-fPIC", soname, "-Wl,--build-id", "@/mine/libx.so.1"];
    let path =
        scene.cc("mine/liby.so.1", library, &[&arguments[..], &["-Wl,-rpath,@/mine"]].concat());
    let source = format!("{SHOW} int y(void); int main(void) {{ show(y()); }}");
    scene.cc("mine/prog", &source, &["@/mine/liby.so.1", "-Wl,-rpath,@/mine"]);
    scene.index(&[]);
    let bytes = std::fs::read(&path).unwrap();
    const PT_NOTE: u32 = 4;
    for away in [1_u64 << 20, 1 << 40, 1 << 63] {
        let mut bytes = bytes.clone();
        let notes: Vec<_> = headers(&bytes).into_iter().filter(|h| h.kind == PT_NOTE).collect();
        assert!(!notes.is_empty());
        for note in notes {
            bytes[note.at + 16..note.at + 24].copy_from_slice(&away.to_ne_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        let (ran, _) = scene.same("mine/prog", &[]);
        assert!(ran.stdout.ends_with("value 6\n"), "{away:#x}: {ran:?}");
    }
}
