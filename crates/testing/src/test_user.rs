//! Runs a test again as an ordinary user, to whom file modes apply.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Runs the named test as another user, with `BECALM_TEST_TREE` set to `tree`, which that user can
/// search. If this process is not root's, the test runs as the same user.
///
/// # Panics
/// Panics if that run fails.
pub fn run_again(test: &str, tree: &Path) {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("test-binary");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        command
    } else {
        Command::new(&copy)
    };
    let run = command
        .args(["--exact", test, "--nocapture"])
        .env("BECALM_TEST_TREE", tree)
        .current_dir("/")
        .output();
    match run {
        Err(error) => crate::skip(&format!("cannot run as another user: {error}")),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}\n{errors}");
            assert!(text.contains("1 passed"), "the second run found no test: {text}");
        }
    }
}
