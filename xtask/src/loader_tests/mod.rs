//! `cargo xtask loader-tests`: runs glibc's own tests of loading in `elf/`, with and without the
//! loader patch.
//!
//! Both trees are configured like a distribution's (`--prefix=/usr`), because some tests install
//! glibc into a root of their own and expect `/etc/ld.so.cache` there. Nothing is installed outside
//! of the folder. [`tree`] builds, [`outcome`] compares.

pub(crate) mod outcome;
pub(crate) mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use self::outcome::{Compared, Results};
use self::tree::{Kind, Run, Tree};
use crate::glibc_sources::GlibcSources;

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
    /// The sources to build.
    #[command(flatten)]
    sources: GlibcSources,
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
    let (jobs, folder) = (options.sources.jobs(), options.sources.folder()?);
    let mut all = Vec::new();
    for source in options.sources.trees() {
        let (version, dir) = source?;
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
