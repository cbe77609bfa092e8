//! `becalm undo`: which files and directories it finds, and which it leaves alone.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::{becalm, run};

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

#[test]
fn a_fifo_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let [fifo, link] = ["fifo", "link"].map(|name| dir.path().join(name));
    make_fifo(&fifo);
    std::os::unix::fs::symlink(&fifo, &link).expect("made");
    let page = dir.path().join("page.html");
    let commands: [&[&str]; 5] = [
        &["undo"],
        &["undo", "-n"],
        &["undo", "--in-place"],
        &["check", "/bin/sh", "--index"],
        &["report", "--output", page.to_str().expect("text")],
    ];
    for command in commands {
        for path in [&fifo, &link] {
            let ran = run(becalm().args(command).arg(path));
            assert_eq!(ran.code, Some(2), "{command:?}: {ran:?}");
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("not a regular file"), "{command:?}: {ran:?}");
        }
    }
    assert!(!fs::exists(&page).expect("can be seen"));
}
