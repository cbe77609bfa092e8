//! `cargo xtask loader-tests`: runs glibc's own tests of loading in `elf/`, with and without the
//! loader patch.
//!
//! Both trees are configured like a distribution's (`--prefix=/usr`), because some tests install
//! glibc into a root of their own and expect `/etc/ld.so.cache` there. Nothing is installed outside
//! of the folder. [`tree`] builds, [`outcome`] compares.

pub(crate) mod outcome;
pub(crate) mod tree;

use anyhow::Result;
use clap::Args;

use self::outcome::{Compared, count, differences, failed};
use self::tree::{Kind, Tree};
use crate::glibc_sources::GlibcSources;

/// Prefixes of the names of the tests. `list-tunables` is the makefile's name for
/// tst-rtld-list-tunables.
const TESTS: &str = "\
    dblload list-tunables order tst-audit tst-dlmopen tst-glibc-hwcaps tst-ldconfig tst-origin \
    tst-rtld";

/// Prefix of the names of the tests that the patches add.
const OWN: &str = "tst-resolution";

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// The sources to build.
    #[command(flatten)]
    sources: GlibcSources,
    /// Run only the tests that the patches add, tst-resolution-*: a single build a release
    #[arg(long)]
    own: bool,
}

/// Builds, runs and compares. Returns false if a test has another result with the patches, or
/// a test of the patches fails.
///
/// # Errors
/// Returns an error if a tree cannot be built or no test was run.
pub fn run(options: &Options) -> Result<bool> {
    let folder = options.sources.folder()?;
    let mut all: Vec<Compared> = Vec::new();
    let mut passed = true;
    for source in options.sources.trees() {
        let (release, dir) = source?;
        let version = release.version;
        let built = |kind: Kind| -> Result<Tree> {
            eprintln!("glibc {version}, {}", kind.name());
            let tree = Tree::prepare(&folder, release, &dir, kind)?;
            tree.build()?;
            Ok(tree)
        };
        let patched = built(Kind::Patched)?;
        let own = patched.test(OWN, &[], "own")?;
        eprintln!("{version}: {} of {} tests of the patches pass", count(&own, "PASS"), own.len());
        passed &= failed(&own).is_empty();
        if !options.own {
            let plain = built(Kind::Plain)?.test(TESTS, &[], "tests")?;
            all.push((version, [plain, patched.test(TESTS, &[], "tests")?]));
        }
    }
    if options.own {
        return Ok(passed);
    }
    print!("{}", outcome::table(&all));
    Ok(passed && all.iter().all(|(_, [one, other])| differences(one, other).is_empty()))
}
