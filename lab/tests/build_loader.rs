//! Tests the refusals of `lab build-loader` before it does anything. `cargo xtask loader-trial` tests
//! whole builds.

use std::process::Command;

fn build(arguments: &[&str]) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.arg("build-loader").args(arguments);
    lab
}

/// Runs the command, which fails, and returns its text on standard error.
fn refused(lab: &mut Command) -> String {
    let ran = lab.output().expect("starts");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    String::from_utf8(ran.stderr).expect("UTF-8")
}

#[test]
fn a_release_without_a_patch_and_a_prefix_of_the_system_are_refused() {
    let said = refused(&mut build(&["--glibc", "2.35", "--prefix", "/opt/x"]));
    assert!(said.contains("2.36, 2.41, 2.42, 2.43"), "{said}");
    let said = refused(&mut build(&["--glibc", "2.42", "--prefix", "/opt/becalm-no-such"]));
    assert!(said.contains("--source names"), "{said}");
    let said = refused(&mut build(&["--glibc", "2.36", "--prefix", "/usr"]));
    assert_eq!(said, "lab: /usr: the prefix must be a directory for this glibc alone\n");
}

#[test]
fn a_build_without_its_tools_says_what_to_install_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("glibc");
    let mut lab = build(&["--glibc", "2.36", "--prefix"]);
    lab.arg(&prefix).env("PATH", folder.path());
    let said = refused(lab.env("XDG_CACHE_HOME", folder.path().join("cache")));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("apt-get install dpkg tar xz-utils patch make gcc"), "{said}");
    assert!(!prefix.exists(), "nothing was installed");
}
