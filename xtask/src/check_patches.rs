//! `cargo xtask check-patches`: checks that each loader patch still applies without fuzz.
//!
//! Only the files that the patches change are copied from a source tree, so the tree stays as it is.
//! A release without a tree is skipped with a message, and fails if `BECALM_REQUIRE_ALL=1` is set.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use loader_patches::{RELEASES, Release};

use crate::patches;

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// Source trees, each as VERSION=DIR; a release may have several.
    #[arg(value_name = "VERSION=DIR", value_parser = patches::source)]
    trees: Vec<(Release, PathBuf)>,
}

/// Applies the patches of each release to a copy of the files that they change.
///
/// # Errors
/// Returns an error if a tree cannot be read or `patch` cannot be run.
pub fn run(options: &Options) -> Result<bool> {
    let required = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|value| value == "1");
    let mut fine = true;
    for release in RELEASES {
        let mut trees = options.trees.iter().filter(|(given, _)| *given == release).peekable();
        if trees.peek().is_none() {
            println!("{}: no source tree given, not checked", release.version);
            fine &= !required;
        }
        for (_, tree) in trees {
            let version = release.version;
            match apply(&release.patches, tree)? {
                Ok(said) => println!("{version}: apply to {}{said}", tree.display()),
                Err(said) => {
                    println!("{version}: do not apply to {}\n{said}", tree.display());
                    fine = false;
                }
            }
        }
    }
    Ok(fine)
}

/// Returns the output of `patch`, as an error if a patch did not apply.
fn apply(series: &[&str], tree: &Path) -> Result<Result<String, String>> {
    let names: BTreeSet<&str> = series.iter().flat_map(|patch| touched(patch)).collect();
    let copy = tempfile::tempdir()?;
    for name in names {
        let (from, to) = (tree.join(name), copy.path().join(name));
        if from.exists() {
            fs::create_dir_all(to.parent().context("a name in a folder")?)?;
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
        }
    }
    let mut moved = 0;
    for patch in series {
        let done = loader_patches::apply(patch, copy.path())?.output().context("patch")?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        if !done.status.success() {
            return Ok(Err(said));
        }
        moved += said.matches("offset").count();
    }
    let manual = if tree.join("manual/tunables.texi").exists() { "" } else { ", without manual/" };
    let moved = if moved == 0 { String::new() } else { format!(" ({moved} hunks at an offset)") };
    Ok(Ok(moved + manual))
}

/// Returns the existing files that a patch changes.
fn touched(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(|line| line.strip_prefix("--- a/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_there_before_are_taken_from_the_tree() {
        let patch = "--- a/elf/a.c\n+++ b/elf/a.c\n--- /dev/null\n+++ b/elf/b.c\n";
        assert_eq!(touched(patch).collect::<Vec<_>>(), ["elf/a.c"]);
    }

    #[test]
    fn a_context_that_changed_is_told_and_not_bridged() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("a"), "one\ntwo\nthree\n").unwrap();
        let hunk = |context: &str| {
            format!("--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n {context}\n-two\n+2\n three\n")
        };
        assert!(apply(&[&hunk("one")], tree.path()).unwrap().is_ok());
        assert!(apply(&[&hunk("eins")], tree.path()).unwrap().is_err());
    }
}
