//! `cargo xtask loader-tests`: runs glibc's own tests of loading in `elf/`, with and without the
//! loader patch.
//!
//! Both trees are configured like a distribution's (`--prefix=/usr`), because some tests install
//! glibc into a root of their own and expect `/etc/ld.so.cache` there. Nothing is installed outside
//! of the folder. [`tree`] builds, [`outcome`] compares.

pub(crate) mod outcome;
pub(crate) mod tree;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use self::outcome::{Compared, Results};
use self::tree::{Kind, Run, Tree};
use crate::patches;

/// Prefixes of the names of the tests. `list-tunables` is the makefile's name for
/// tst-rtld-list-tunables.
const TESTS: [&str; 9] = [
    "dblload",
    "list-tunables",
    "order",
    "tst-audit",
    "tst-dlmopen",
    "tst-glibc-hwcaps",
    "tst-ldconfig",
    "tst-origin",
    "tst-rtld",
];

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// Unpatched source trees of Debian's glibc-source, each as VERSION=DIR; they stay as they are
    #[arg(value_name = "VERSION=DIR", required = true, value_parser = patches::source)]
    sources: Vec<(String, PathBuf)>,
    /// Folder for trees and objects: 1.5 GB a release, used again by the next run
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Number of concurrent compilers
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Write one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Builds, runs and compares. The exit code is 1 if a test has another result with the patch.
///
/// # Errors
///
/// Returns an error if a tree cannot be built or no test was run.
pub fn run(options: &Options) -> Result<ExitCode> {
    let jobs = options.jobs.or_else(|| std::thread::available_parallelism().ok());
    let jobs = jobs.map_or(1, NonZeroUsize::get);
    fs::create_dir_all(&options.folder).with_context(|| options.folder.display().to_string())?;
    let folder = fs::canonicalize(&options.folder)?;
    let mut all = Vec::new();
    for (version, dir) in &options.sources {
        let dir = fs::canonicalize(dir).with_context(|| dir.display().to_string())?;
        check(version, &dir)?;
        let results = |kind: Kind| -> Result<Results> {
            eprintln!("glibc {version}, {}", kind.name());
            let tree = Tree::prepare(&folder, version, &dir, kind)?;
            tree.build(jobs)?;
            tree.test(&Run { starts: &TESTS, variables: &[], label: "tests" }, jobs)
        };
        let (plain, patched) = (results(Kind::Plain)?, results(Kind::Patched)?);
        all.push(Compared::new(version, plain, patched));
    }
    if options.json {
        println!("{}", serde_json::to_string(&all)?);
    } else {
        print!("{}", outcome::table(&all));
    }
    let same = all.iter().all(Compared::is_same);
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if the tree is of another release or is already patched.
pub(crate) fn check(version: &str, dir: &Path) -> Result<()> {
    let path = dir.join("version.h");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(text.contains(&format!("\"{version}\"")), "{}: not glibc {version}", dir.display());
    if dir.join("elf/dl-resolution.c").exists() {
        bail!("{}: patched already", dir.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_another_release_or_a_patched_one_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("version.h"), "#define VERSION \"2.41\"\n").unwrap();
        assert!(check("2.41", tree.path()).is_ok());
        assert!(check("2.4", tree.path()).is_err());
        fs::create_dir(tree.path().join("elf")).unwrap();
        fs::write(tree.path().join("elf/dl-resolution.c"), "").unwrap();
        assert!(check("2.41", tree.path()).is_err());
    }
}
