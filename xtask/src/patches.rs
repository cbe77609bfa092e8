//! `cargo xtask patches`: the loader patch of each glibc release, out of the reader
//! that all share and the hooks that each has of its own.
//!
//! `crates/lib/patches/glibc/common/` holds files that are new in every release,
//! `crates/lib/patches/glibc/VERSION/hooks.diff` the lines touched in one. Together they are
//! `VERSION/resolution.patch`; `README.in` becomes `VERSION/README.md`. What is
//! generated is committed, since it is what people take; `--check` says where it is
//! no longer what it was made of.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

/// A release that is patched.
pub struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite whose `glibc-source` it is.
    pub suite: &'static str,
}

/// All releases, oldest first.
pub const RELEASES: [Release; 3] = [
    Release { version: "2.36", suite: "bookworm" },
    Release { version: "2.41", suite: "trixie" },
    Release { version: "2.43", suite: "sid" },
];

/// How the chore is asked for.
#[derive(Args)]
pub struct Options {
    /// Write nothing; fail where a file is not up to date.
    #[arg(long)]
    check: bool,
}

/// Where the patches are, from this crate's own place.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lib/patches/glibc")
}

/// Reads `VERSION=DIR`: a source tree of a release that is patched.
///
/// # Errors
///
/// Something else, or a release without a patch.
pub fn source(text: &str) -> Result<(String, PathBuf), String> {
    let (version, dir) = text.split_once('=').ok_or("not VERSION=DIR")?;
    if RELEASES.iter().any(|release| release.version == version) {
        return Ok((version.to_owned(), dir.into()));
    }
    Err(format!("{version}: there is no patch for it"))
}

/// The command that applies a release's patch to `tree`, without fuzz and without asking.
///
/// # Errors
///
/// No such patch.
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
/// A file that cannot be read or written.
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

/// What the generated files of a release should hold.
///
/// # Errors
///
/// A part that cannot be read.
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

/// Whether a line of a unified diff adds or takes a line.
fn is_change(line: &str) -> bool {
    (line.starts_with('+') && !line.starts_with("+++"))
        || (line.starts_with('-') && !line.starts_with("---"))
}

/// The files below `common`, by their names in glibc's tree, sorted.
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

/// A file that was not there before, as a unified diff has it.
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
