//! `cargo xtask patches`: generates the loader patch of each glibc release from the shared reader
//! and the release's own hooks.
//!
//! `crates/lib/patches/glibc/common/` has the files that are new in every release, and
//! `crates/lib/patches/glibc/VERSION/hooks.diff` the changed lines of one. Together they are
//! `VERSION/resolution.patch`; `README.in` becomes `VERSION/README.md`. The generated files are
//! committed, because users take them from the repository; `--check` reports those that are out of
//! date.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

/// A release with a patch.
pub struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite with its `glibc-source`.
    pub suite: &'static str,
}

/// All releases, oldest first.
pub const RELEASES: [Release; 3] = [
    Release { version: "2.36", suite: "bookworm" },
    Release { version: "2.41", suite: "trixie" },
    Release { version: "2.43", suite: "sid" },
];

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// Write nothing; fail if a file is out of date.
    #[arg(long)]
    check: bool,
}

/// Returns the folder of the patches.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lib/patches/glibc")
}

/// Parses `VERSION=DIR`, a source tree of a release with a patch.
///
/// # Errors
///
/// Returns an error for any other text and for a release without a patch.
pub fn source(text: &str) -> Result<(String, PathBuf), String> {
    let (version, dir) = text.split_once('=').ok_or("not VERSION=DIR")?;
    if RELEASES.iter().any(|release| release.version == version) {
        return Ok((version.to_owned(), dir.into()));
    }
    Err(format!("{version}: there is no patch for it"))
}

/// Returns the command that applies a release's patch to `tree`, without fuzz and without
/// questions.
///
/// # Errors
///
/// Returns an error if there is no such patch.
pub fn apply(patch: &Path, tree: &Path) -> Result<Command> {
    let mut command = Command::new("patch");
    command.args(["-p1", "--fuzz=0", "--force", "--input"]);
    command.arg(fs::canonicalize(patch).with_context(|| patch.display().to_string())?);
    command.current_dir(tree);
    Ok(command)
}

/// Writes or checks the generated files.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut stale = 0;
    for release in &RELEASES {
        for (path, text) in generated(&folder(), release)? {
            if fs::read_to_string(&path).ok().as_deref() == Some(&text) {
                continue;
            }
            if options.check {
                println!("{} is not up to date: cargo xtask patches", path.display());
                stale += 1;
            } else {
                fs::write(&path, text).with_context(|| path.display().to_string())?;
                println!("{}", path.display());
            }
        }
    }
    Ok(if stale == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the expected content of a release's generated files.
///
/// # Errors
///
/// Returns an error if a part cannot be read.
pub fn generated(folder: &Path, release: &Release) -> Result<Vec<(PathBuf, String)>> {
    let own = folder.join(release.version);
    let mut patch = read(&own.join("hooks.diff"))?;
    let touched = patch.lines().filter(|line| is_change(line)).count();
    let files = new_files(&folder.join("common"))?;
    for (name, text) in &files {
        patch.push_str(&addition(name, text)?);
    }
    let readme = read(&folder.join("README.in"))?
        .replace("@VERSION@", release.version)
        .replace("@SUITE@", release.suite)
        .replace("@TOUCHED@", &touched.to_string());
    Ok(vec![(own.join("resolution.patch"), patch), (own.join("README.md"), readme)])
}

/// Returns true if a line of a unified diff adds or removes a line.
fn is_change(line: &str) -> bool {
    (line.starts_with('+') && !line.starts_with("+++"))
        || (line.starts_with('-') && !line.starts_with("---"))
}

/// Returns the files below `common` by their names in glibc's tree, sorted.
fn new_files(common: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(common).with_context(|| common.display().to_string())? {
        let folder = entry?.path();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.strip_prefix(common)?.to_string_lossy().into_owned();
            files.push((name, read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns a unified diff that adds a file.
fn addition(name: &str, text: &str) -> Result<String> {
    if !text.ends_with('\n') {
        bail!("{name} does not end with a newline");
    }
    let mut diff = format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{} @@\n", text.lines().count());
    for line in text.lines() {
        writeln!(diff, "+{line}")?;
    }
    Ok(diff)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_what_the_parts_make() {
        for release in &RELEASES {
            for (path, text) in generated(&folder(), release).unwrap() {
                let committed = fs::read_to_string(&path).unwrap_or_default();
                assert!(committed == text, "{}: cargo xtask patches", path.display());
            }
        }
    }

    #[test]
    fn a_release_without_a_patch_is_refused() {
        assert!(source("2.41=/x").is_ok());
        assert!(source("2.40=/x").is_err());
        assert!(source("/x").is_err());
    }

    #[test]
    fn an_added_file_is_counted_and_marked_line_by_line() {
        let diff = addition("elf/a.c", "one\n\nthree\n").unwrap();
        assert_eq!(diff, "--- /dev/null\n+++ b/elf/a.c\n@@ -0,0 +1,3 @@\n+one\n+\n+three\n");
        assert!(addition("elf/a.c", "no end").is_err());
    }
}
