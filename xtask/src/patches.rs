//! `cargo xtask patches`: generates the loader patches of each glibc release from the shared files
//! and the release's own changes.
//!
//! Each release has two patches: the reader of notes (0001), and on top of it the reader of package
//! caches (0002). `crates/lib/patches/glibc/common/000N/` has the files that a patch adds to every
//! release, `000N.message` its commit message, and `VERSION/000N-hooks.diff` the changed lines of a
//! release. `README.in` becomes `VERSION/README.md`. The generated files are committed, because
//! users take them from the repository; `--check` reports those that are out of date.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Seek, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::manual::without_manual;

// The library embeds the generated patches, so it cannot be a dependency of what generates them.
/// The manual of glibc.
#[path = "../../lab/src/build_loader/manual.rs"]
pub mod manual;

/// A release with patches.
pub struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite with its `glibc-source`.
    pub suite: Option<&'static str>,
}

/// All releases, oldest first.
pub const RELEASES: [Release; 5] = [
    Release { version: "2.36", suite: Some("bookworm") },
    Release { version: "2.41", suite: Some("trixie") },
    Release { version: "2.42", suite: None },
    Release { version: "2.43", suite: Some("sid") },
    Release { version: "2.44", suite: Some("experimental") },
];

/// The patches of a release in their order: number and name.
const SERIES: [(&str, &str); 2] = [
    ("0001", "0001-elf-Read-resolution-notes.patch"),
    ("0002", "0002-elf-Read-loader-caches-of-packages.patch"),
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
/// Returns an error for any other text and for a release without a patch.
pub fn source(text: &str) -> Result<(String, PathBuf), String> {
    let (version, dir) = text.split_once('=').ok_or("not VERSION=DIR")?;
    if RELEASES.iter().any(|release| release.version == version) {
        return Ok((version.to_owned(), dir.into()));
    }
    Err(format!("{version}: there is no patch for it"))
}

/// Returns the patches of a release, in their order.
pub fn series(version: &str) -> [PathBuf; 2] {
    SERIES.map(|(_, name)| folder().join(version).join(name))
}

/// Returns the command that applies `patch` to `tree`, without fuzz and without questions. Changes
/// of the manual are left out if the tree has none, like Debian's source.
///
/// # Errors
/// Returns an error if the patch cannot be read.
pub fn apply(patch: &Path, tree: &Path) -> Result<Command> {
    let mut text = read(patch)?;
    if !tree.join("manual/tunables.texi").exists() {
        text = without_manual(&text);
    }
    let mut input: File = tempfile::tempfile()?;
    input.write_all(text.as_bytes())?;
    input.rewind()?;
    let mut command = Command::new("patch");
    command.args(["-p1", "--fuzz=0", "--force"]).stdin(input).current_dir(tree);
    Ok(command)
}

/// Writes or checks the generated files.
///
/// # Errors
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
/// Returns an error if a part cannot be read.
pub fn generated(folder: &Path, release: &Release) -> Result<Vec<(PathBuf, String)>> {
    let own = folder.join(release.version);
    let mut readme = read(&folder.join("README.in"))?
        .replace("@VERSION@", release.version)
        .replace("@SOURCE@", &source_of(release));
    let mut generated = Vec::new();
    for (number, name) in SERIES {
        let hooks = read(&own.join(format!("{number}-hooks.diff")))?;
        let mut patch = read(&folder.join(format!("{number}.message")))?;
        patch.push_str("---\n");
        patch.push_str(&hooks);
        for (name, text) in new_files(&folder.join("common").join(number))? {
            patch.push_str(&addition(&name, &text)?);
        }
        let touched = hooks.lines().filter(|line| is_change(line)).count();
        readme = readme.replace(&format!("@TOUCHED-{number}@"), &touched.to_string());
        generated.push((own.join(name), patch));
    }
    generated.push((own.join("README.md"), readme));
    Ok(generated)
}

/// Describes where the source of a release is found.
fn source_of(release: &Release) -> String {
    release.suite.map_or_else(
        || "in no Debian suite".into(),
        |suite| format!("Debian: `glibc-source` of {suite}"),
    )
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
