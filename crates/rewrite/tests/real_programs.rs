//! Edits of a real program of this machine: it still runs, says what was asked, and comes
//! back byte for byte.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_rewrite::{State, edit, state, undo};

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
fn a_program_of_this_machine_runs_after_each_edit_and_comes_back() {
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
