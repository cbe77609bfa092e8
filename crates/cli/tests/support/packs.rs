//! Packs and the folders that they are unpacked into.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ran, becalm, run};

/// Makes a folder for records and copies.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    folder
}

/// Runs a command for which the times of files in a tree count.
pub fn of_tree(tree: &Path, home: &Path, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = becalm();
    command.args(arguments).env("BECALM_CACHE", folder).env("HOME", home);
    run(command.env("BECALM_TRUST_TIMES", tree))
}

/// Returns the document that a command has printed.
pub fn document(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}
