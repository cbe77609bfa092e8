//! A survey of many files: each is checked and passed on, and nothing is kept. Memory does not grow
//! with the number of files.
//!
//! [`shard`] divides the files among machines; [`summary`] adds up the output of a survey.

mod owners;
pub mod shard;
pub mod summary;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use becalm_core::fs::{FileId, FileSystem};
use becalm_host::{Found, WalkOptions, find_objects};
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::Assumptions;
use crate::check::budget::Budget;
use crate::check::{Program, check};
use crate::json::{self, lossy, lossy_option};
use crate::path::path_bytes;
use crate::survey::shard::Shard;
use crate::targets::{Problem, Target};
use crate::words::{words, words_of_host};

/// The number of directories and objects that are cached from one file to the next.
const REMEMBERED: usize = 16_384;

/// A program of a survey: the line of `becalm check --ndjson`.
#[derive(Debug, Serialize)]
pub struct Surveyed {
    /// The cost of its start.
    #[serde(flatten)]
    pub program: Box<Program>,
    /// The package that the file is in: the first component below a store prefix; or null.
    #[serde(serialize_with = "lossy_option")]
    pub package: Option<BString>,
    /// The user who owns the file.
    pub uid: u32,
    /// The name of that user here, or null.
    pub owner: Option<String>,
    /// The length of the file in bytes.
    pub bytes: u64,
}

json::schema!(Surveyed, "becalm/survey/1");

/// A file that could not be checked, as a line of a survey.
#[derive(Debug, Serialize)]
pub struct Unchecked<'a> {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: &'a BString,
    /// The reason.
    pub error: &'a str,
}

impl json::Report for Unchecked<'_> {
    const SCHEMA: &'static str = <Surveyed as json::Report>::SCHEMA;
}

/// The files of a survey, and how they are judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The share of the files that is checked.
    pub shard: Shard,
    /// The most that each start may cost.
    pub budget: Budget,
    /// True if the times of programs are estimated.
    pub times: bool,
}

/// Receives the results for some files; returns false to end the survey.
pub type Each<'a> = dyn Fn(Vec<Result<Surveyed, Problem>>) -> bool + Sync + 'a;

/// Checks the objects of the shard among `paths` and below the folders among them. `each` receives
/// some programs and problems at a time, from several threads and in no order; the survey ends
/// early if it returns false. A file with several names is checked under the one that is found
/// first.
pub fn survey(
    assumed: &mut Assumptions,
    paths: &[PathBuf],
    options: Options,
    progress: &(dyn Fn(usize) + Sync),
    each: &Each<'_>,
) {
    assumed.fs.limit_memory(REMEMBERED);
    let owners = owners::parse(&std::fs::read("/etc/passwd").unwrap_or_default());
    let seen = Mutex::default();
    let (shard, work) = (options.shard, Work { assumed, options, owners, seen });
    let mut hosts = Vec::new();
    for path in paths {
        let inside = work.assumed.fs.inside(path);
        match work.assumed.fs.host_path(inside.as_bstr()) {
            Ok(host) if host.is_dir() => hosts.push(host),
            Ok(host) if shard.has(path) => {
                let shown = path_bytes(path);
                each(work.check(&[Target { shown, inside, host, named: true }]));
            }
            Ok(_) => {}
            Err(error) => {
                each(vec![Err(Problem::new(path_bytes(path), words_of_host(&error).1))]);
            }
        }
    }
    let ended = AtomicBool::new(false);
    let goes_on = || !ended.load(Ordering::Relaxed);
    let keep = |path: &Path| goes_on() && shard.has(path);
    let take = |found: &[Found]| {
        if goes_on() && !each(work.check(&work.targets(found))) {
            ended.store(true, Ordering::Relaxed);
        }
    };
    let options = WalkOptions {
        progress: Some(progress),
        keep: Some(&keep),
        take: Some(&take),
        ..WalkOptions::default()
    };
    let walked = find_objects(&hosts, options);
    each(walked.errors.iter().map(|error| Err(Problem::from(error))).collect());
}

struct Work<'a> {
    assumed: &'a Assumptions,
    options: Options,
    owners: HashMap<u32, String>,
    seen: Mutex<FxHashSet<FileId>>,
}

impl Work<'_> {
    /// Returns the files that were not found before under another name.
    fn targets(&self, found: &[Found]) -> Vec<Target> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = found.iter().filter(|found| seen.insert(found.id));
        new.map(|found| Target::found(self.assumed, &found.path)).collect()
    }

    fn check(&self, targets: &[Target]) -> Vec<Result<Surveyed, Problem>> {
        let session = self.assumed.fs.session();
        let one = |target: &Target| match check(self.assumed, &session, target) {
            Ok(Some((mut program, closure))) => {
                if let Some(closure) = closure.as_ref().filter(|_| self.options.times) {
                    program.add_estimate(self.assumed, &session, target, closure);
                }
                let of = (&mut *program, closure.as_ref());
                self.options.budget.judge((self.assumed, &session), target, of);
                Some(self.surveyed(&session, program, target))
            }
            Ok(None) => None,
            Err(problem) => Some(Err(problem)),
        };
        targets.iter().filter_map(one).collect()
    }

    fn surveyed(
        &self,
        fs: &dyn FileSystem,
        program: Box<Program>,
        target: &Target,
    ) -> Result<Surveyed, Problem> {
        use std::os::unix::fs::MetadataExt;
        let path = || target.shown.clone();
        let facts = target.host.metadata();
        let facts = facts.map_err(|error| Problem { path: path(), reason: words(&error) })?;
        let real = fs.canonicalize(target.inside.as_ref()).unwrap_or_else(|_| path());
        let package = self.assumed.stores.package_of(real.as_ref()).map(ToOwned::to_owned);
        let owner = self.owners.get(&facts.uid()).cloned();
        Ok(Surveyed { program, package, uid: facts.uid(), owner, bytes: facts.len() })
    }
}
