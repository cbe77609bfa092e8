//! `cargo xtask loader-trial`: builds patched loaders with `lab build-loader`, and tries them
//! and becalm's predictions of them.
//!
//! A loader has its prefix and its store compiled in. Both are in a folder that is the same for
//! every clone, so a build is found again in becalm's cache. Other users must be able to search the
//! folder, because some cases start programs as nobody.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use loader_patches::RELEASES;

use crate::command::output;

/// Number of random stores to try with each strategy.
const STORES: &str = "5";

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The releases to try; all by default
    #[arg(value_name = "VERSION")]
    releases: Vec<String>,
    /// The becalm that is tried
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// The lab that builds
    #[arg(long, value_name = "FILE")]
    lab: PathBuf,
}

/// Builds and tries. Returns false if a loader fails a case.
///
/// # Errors
/// Returns an error if a release is unknown or a build fails.
pub fn run(options: &Options) -> Result<bool> {
    let known = |version: &String| {
        RELEASES.iter().any(|release| release.version == version && release.suite.is_some())
    };
    if let Some(version) = options.releases.iter().find(|version| !known(version)) {
        bail!("{version}: there is no patch for it, or no source in Debian");
    }
    let user = rustix::process::getuid().as_raw();
    let folder = folder(Path::new(&format!("/var/tmp/becalm-loader-{user}")), user)?;
    let mut fine = true;
    // Other releases are in no Debian suite.
    for release in RELEASES.iter().filter(|release| release.suite.is_some()) {
        let version = release.version;
        if options.releases.is_empty() || options.releases.iter().any(|wanted| wanted == version) {
            let loader = build(options, &folder, version)?;
            fine &= is_seen_to_read(options, &loader, &folder)?;
            let trial = |script: &str, more: &[&str]| -> Result<bool> {
                let script = loader_patches::folder().join("tests").join(script);
                let mut python = Command::new("python3");
                python.arg("-B").arg(script).args(more).arg("--becalm").arg(&options.becalm);
                python.arg("--loader").arg(&loader).arg("--store").arg(folder.join("store"));
                Ok(python.status().context("python3")?.success())
            };
            fine &= trial("trial.py", &[])?;
            fine &= trial("random_stores.py", &["--count", STORES])?;
        }
    }
    Ok(fine)
}

/// Creates the folder if it does not exist, and the store in it.
fn folder(folder: &Path, user: u32) -> Result<PathBuf> {
    let store = folder.join("store");
    let mut make = fs::DirBuilder::new();
    make.recursive(true).mode(0o755).create(&store).with_context(|| store.display().to_string())?;
    let folder = fs::canonicalize(folder)?;
    let owner = fs::metadata(&folder)?.uid();
    ensure!(owner == user, "{}: belongs to another user", folder.display());
    Ok(folder)
}

/// Builds the loader of a release.
fn build(options: &Options, folder: &Path, version: &str) -> Result<PathBuf> {
    println!("glibc {version}");
    let mut lab = Command::new(&options.lab);
    lab.args(["build-loader", "--minimal", "--glibc", version]);
    lab.arg("--prefix").arg(folder.join(version)).arg("--store").arg(folder.join("store"));
    Ok(PathBuf::from(String::from_utf8(output(&mut lab)?.stdout)?.trim()))
}

/// Returns true if `becalm loader check` detects both readers.
fn is_seen_to_read(options: &Options, loader: &Path, folder: &Path) -> Result<bool> {
    let mut becalm = Command::new(&options.becalm);
    becalm.args(["loader", "check"]).arg(loader).arg("--store").arg(folder.join("store"));
    let done = becalm.output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    let reads = said == "notes   read\ncaches  read\n" && done.status.success();
    if !reads {
        println!("becalm loader check: {}: {said}", done.status);
    }
    Ok(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn the_folder_is_made_with_a_store_in_it_and_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let given = scratch.path().join("a/b");
        let made = folder(&given, user()).unwrap();
        assert!(made.join("store").is_dir());
        assert_eq!(folder(&given, user()).unwrap(), made);
    }

    #[test]
    fn a_folder_of_another_user_is_not_used() {
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            let scratch = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(scratch.path(), Some(65534), None).unwrap();
            assert!(folder(scratch.path(), user()).is_err());
        } else {
            assert!(folder(Path::new("/"), user()).is_err());
        }
    }
}
