//! `cargo xtask check-patches`: each loader patch still applies, without fuzz.
//!
//! Of a source tree only the files that the patch touches are copied and patched, so
//! the tree stays as it is. A release without a tree is passed over with its reason,
//! and fails where `BECALM_REQUIRE_ALL=1` is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::patches::{self, RELEASES, folder};

/// How the chore is asked for.
#[derive(Args)]
pub struct Options {
    /// Source trees, each as VERSION=DIR; a release may have several.
    #[arg(value_name = "VERSION=DIR", value_parser = patches::source)]
    trees: Vec<(String, PathBuf)>,
}

/// Applies each patch to a copy of what it touches.
///
/// # Errors
///
/// A tree that cannot be read, or no `patch` to run.
pub fn run(options: &Options) -> Result<ExitCode> {
    let required = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|value| value == "1");
    let mut fine = true;
    for release in &RELEASES {
        let patch = folder().join(release.version).join("resolution.patch");
        let mut trees =
            options.trees.iter().filter(|(version, _)| version == release.version).peekable();
        if trees.peek().is_none() {
            println!("{}: no source tree given, not checked", release.version);
            fine &= !required;
        }
        for (version, tree) in trees {
            match apply(&patch, tree)? {
                Ok(said) => println!("{version}: applies to {}{said}", tree.display()),
                Err(said) => {
                    println!("{version}: does not apply to {}\n{said}", tree.display());
                    fine = false;
                }
            }
        }
    }
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `patch` said where it applied and where it did not.
fn apply(patch: &Path, tree: &Path) -> Result<Result<String, String>> {
    let text = fs::read_to_string(patch).with_context(|| patch.display().to_string())?;
    let copy = tempfile::tempdir()?;
    for name in touched(&text) {
        let (from, to) = (tree.join(name), copy.path().join(name));
        fs::create_dir_all(to.parent().context("a name in a folder")?)?;
        fs::copy(&from, &to).with_context(|| from.display().to_string())?;
    }
    let done = patches::apply(patch, copy.path())?.output().context("patch")?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        return Ok(Err(said));
    }
    if said.contains("fuzz") {
        bail!("patch used fuzz that it was told not to: {said}");
    }
    let moved = said.matches("offset").count();
    Ok(Ok(if moved == 0 { String::new() } else { format!(" ({moved} hunks at an offset)") }))
}

/// The files that are there before.
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
        let patch = tree.path().join("p");
        let hunk = |context: &str| {
            format!("--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n {context}\n-two\n+2\n three\n")
        };
        fs::write(&patch, hunk("one")).unwrap();
        assert!(apply(&patch, tree.path()).unwrap().is_ok());
        fs::write(&patch, hunk("eins")).unwrap();
        assert!(apply(&patch, tree.path()).unwrap().is_err());
    }
}
