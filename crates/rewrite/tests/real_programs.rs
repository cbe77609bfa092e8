//! Tests of edits of a real program of this machine: it still runs, has the wanted strings, and is
//! restored byte for byte.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_rewrite::{State, edit, state, undo};
use becalm_testing::skip;

fn run_path(value: &str) -> Edit {
    Edit::RunPath { kind: RunPathKind::Keep, value: Some(value.into()) }
}

fn runs(image: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let path = dir.path().join("program");
    fs::write(&path, image).expect("a scratch file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    let output = Command::new(&path).arg("--version").output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_of_this_machine_runs_after_each_edit_and_is_restored() {
    let original = fs::read("/usr/bin/env").expect("a program of this machine");
    let said = runs(&original);
    let note = vec![0x5a; 37];
    let edits = [Edit::ResolutionNote(Some(note.clone())), run_path("/nowhere/at/all")];
    let edited = edit(original.as_slice(), &edits).expect("it can be edited");
    let image = edited.patch.expect("there is something to change").applied_to(&original);
    assert_eq!(runs(&image), said);
    let view = elf::parse(image.as_slice()).expect("it parses");
    assert_eq!(view.notes.resolution, Some(note));
    assert_eq!(view.dynamic.and_then(|it| it.runpath), Some("/nowhere/at/all".into()));
    let length = original.len() as u64;
    assert_eq!(state(image.as_slice()), Ok(State::Edited { original_length: length }));
    assert_eq!(edit(image.as_slice(), &edits).map(|it| it.patch), Ok(None));
    let back = undo(image.as_slice()).expect("it can be undone").applied_to(&image);
    assert!(back == original, "not byte for byte");
}

/// Returns the options of `gcc` for a linker, or `None` if the linker is not installed.
fn linker(name: &str) -> Option<Vec<String>> {
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if installed(&format!("ld.{name}")) {
        return Some(vec![format!("-fuse-ld={name}")]);
    }
    // rustup has lld, with a wrapper that gcc accepts.
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = String::from_utf8(output.stdout).ok()?;
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let front = format!("{}/lib/rustlib/{host}/bin/gcc-ld", root.trim());
    let there = name == "lld" && std::path::Path::new(&front).join("ld.lld").is_file();
    there.then(|| vec![format!("-B{front}"), "-fuse-ld=lld".to_owned()])
}

#[test]
fn programs_of_each_linker_and_kind_still_run() {
    let dir = tempfile::tempdir().expect("a scratch folder");
    let source = dir.path().join("program.c");
    let text = "#include <stdio.h>\nstatic char large[1 << 20];\n\
                int main(void) { return puts(\"still here\") < 0 || large[7]; }\n";
    fs::write(&source, text).expect("a source file");
    let kinds: [&[&str]; 5] = [
        &["-pie", "-fPIE"],
        &["-no-pie", "-fno-pie"],
        &["-static", "-no-pie", "-fno-pie"],
        &["-static-pie", "-fPIE"],
        &["-pie", "-fPIE", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"],
    ];
    for name in ["bfd", "gold", "lld"] {
        let Some(words) = linker(name) else {
            skip(&format!("the linker {name} is not installed"));
            continue;
        };
        for kind in kinds {
            // gold supports neither.
            let unknown = ["-static-pie", "-Wl,-z,noseparate-code"];
            if name == "gold" && kind.iter().any(|word| unknown.contains(word)) {
                continue;
            }
            let out = dir.path().join("linked");
            let mut command = Command::new("gcc");
            command.args(&words).args(kind).arg(&source).arg("-o").arg(&out);
            let linked = command.output().expect("gcc runs");
            if !linked.status.success() {
                skip(&format!("{name} does not link {kind:?}"));
                continue;
            }
            let original = fs::read(&out).expect("what was linked");
            each_edit_runs(&original, &format!("{name} {kind:?}"));
        }
    }
}

/// Adds a note, and a run path if the program has a dynamic section of its own.
fn each_edit_runs(original: &[u8], what: &str) {
    let note = Edit::ResolutionNote(Some(vec![0x5a; 300]));
    let dynamic = elf::parse(original).expect("it parses").interpreter.is_some();
    let long = "/nowhere".repeat(40);
    let mut trials = vec![vec![note.clone()]];
    if dynamic {
        trials.push(vec![run_path(&long)]);
        trials.push(vec![note, run_path(&long), Edit::Audit(Some("/nowhere".into()))]);
    }
    for edits in trials {
        let edited = edit(original, &edits).unwrap_or_else(|error| panic!("{what}: {error}"));
        let image = edited.patch.expect("a change").applied_to(original);
        assert_eq!(runs(&image), "still here\n", "{what}");
        let back = undo(image.as_slice()).expect("it can be undone").applied_to(&image);
        assert!(back == original, "{what}: not byte for byte");
    }
}
