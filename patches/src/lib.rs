//! The patches by which the loaders of glibc releases read notes and package caches.
//!
//! `build.rs` generates them from `glibc/`. The patches of other projects are beside it: `musl/`,
//! `binutils/`, `elfutils/`.

use std::fs::{self, File};
use std::io::{Seek, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result};

/// A glibc release with patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite with its `glibc-source`.
    pub suite: Option<&'static str>,
    /// The reader of notes, and the reader of package caches on top of it.
    pub patches: [&'static str; 2],
    readme: &'static str,
}

macro_rules! release {
    ($version:literal, $suite:expr) => {
        Release {
            version: $version,
            suite: $suite,
            patches: [
                include_str!(concat!(env!("OUT_DIR"), "/", $version, "-0001.patch")),
                include_str!(concat!(env!("OUT_DIR"), "/", $version, "-0002.patch")),
            ],
            readme: include_str!(concat!(env!("OUT_DIR"), "/", $version, "-README.md")),
        }
    };
}

/// All releases, oldest first.
pub const RELEASES: [Release; 5] = [
    release!("2.36", Some("bookworm")),
    release!("2.41", Some("trixie")),
    release!("2.42", None),
    release!("2.43", Some("sid")),
    release!("2.44", Some("experimental")),
];

/// A glibc release without patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no patch for it; there is one for {}", RELEASES.map(|release| release.version).join(", "))]
pub struct NoPatch;

impl FromStr for Release {
    type Err = NoPatch;

    fn from_str(text: &str) -> Result<Self, NoPatch> {
        RELEASES.into_iter().find(|release| release.version == text).ok_or(NoPatch)
    }
}

impl Release {
    /// Writes the patches and their README into a folder.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let source = self.suite.map_or_else(
            || "in no Debian suite".into(),
            |suite| format!("Debian: `glibc-source` of {suite}"),
        );
        let files = [
            ("0001-elf-Read-resolution-notes.patch", self.patches[0]),
            ("0002-elf-Read-loader-caches-of-packages.patch", self.patches[1]),
            ("README.md", &self.readme.replace("@SOURCE@", &source)),
        ];
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, text) in files {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// Returns the folder with the parts of glibc's patches, and the trials of built loaders.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("glibc")
}

/// Returns the command that applies a patch to `tree`, without fuzz and without questions. Changes
/// of the manual are left out if the tree has none, like Debian's source.
///
/// # Errors
/// Returns an error if no temporary file can be written.
pub fn apply(patch: &str, tree: &Path) -> Result<Command> {
    let mut input: File = tempfile::tempfile()?;
    if tree.join("manual/tunables.texi").exists() {
        input.write_all(patch.as_bytes())?;
    } else {
        input.write_all(without_manual(patch).as_bytes())?;
    }
    input.rewind()?;
    let mut command = Command::new("patch");
    command.args(["-p1", "--fuzz=0", "--force"]).stdin(input).current_dir(tree);
    Ok(command)
}

/// Returns a patch without its changes of glibc's manual.
fn without_manual(patch: &str) -> String {
    let mut is_manual = false;
    let keeps = |line: &&str| {
        if line.starts_with("--- a/") || line.starts_with("--- /dev/null") {
            is_manual = line.starts_with("--- a/manual/");
        }
        !is_manual
    };
    patch.split_inclusive('\n').filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_manual_is_left_out_of_a_patch() {
        let patch = "Subject\n--- a/a\n+++ b/a\n+1\n--- a/manual/b\n+++ b/manual/b\n+2\n\
                     --- /dev/null\n+++ b/c\n+3\n";
        let rest = "Subject\n--- a/a\n+++ b/a\n+1\n--- /dev/null\n+++ b/c\n+3\n";
        assert_eq!(without_manual(patch), rest);
    }

    #[test]
    fn a_release_without_a_patch_is_refused_with_those_that_have_one() {
        assert_eq!("2.41".parse::<Release>().map(|release| release.suite), Ok(Some("trixie")));
        let error = "2.40".parse::<Release>().expect_err("no patch");
        assert!(error.to_string().ends_with("2.36, 2.41, 2.42, 2.43, 2.44"), "{error}");
    }

    #[test]
    fn every_patch_changes_the_manual_and_nothing_generated() {
        for (release, patch) in RELEASES.iter().flat_map(|r| r.patches.map(|patch| (r, patch))) {
            assert!(patch.contains("\n--- a/manual/tunables.texi\n"), "{}", release.version);
            assert!(!without_manual(patch).contains("manual/"), "{}", release.version);
            assert!(!patch.contains("\n--- a/configure\n"), "{}", release.version);
        }
    }

    /// `patch` itself reads each hunk: its counts are right, and added files are whole.
    #[test]
    fn the_added_files_of_every_patch_are_those_of_the_common_folder() {
        for release in RELEASES {
            let folder = tempfile::tempdir().unwrap();
            for (number, patch) in ["0001", "0002"].into_iter().zip(release.patches) {
                let begin = patch.find("\n--- /dev/null\n").expect("a patch adds files") + 1;
                let done = apply(&patch[begin..], folder.path()).unwrap().output().unwrap();
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
                let common = super::folder().join("common").join(number).join("elf");
                for file in fs::read_dir(common).unwrap().map(|file| file.unwrap().path()) {
                    let made = folder.path().join("elf").join(file.file_name().unwrap());
                    assert_eq!(fs::read(&made).unwrap(), fs::read(&file).unwrap(), "{made:?}");
                }
            }
        }
    }

    #[test]
    fn a_release_is_written_with_a_readme_that_names_its_source() {
        let folder = tempfile::tempdir().unwrap();
        for release in RELEASES {
            let folder = folder.path().join(release.version);
            release.write(&folder).unwrap();
            let readme = fs::read_to_string(folder.join("README.md")).unwrap();
            assert!(readme.contains(release.suite.unwrap_or("in no Debian suite")), "{readme}");
            assert!(!readme.contains('@'), "{readme}");
            for (name, patch) in
                readme.split('`').filter(|word| word.ends_with(".patch")).zip(release.patches)
            {
                assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), patch, "{name}");
            }
        }
    }
}
