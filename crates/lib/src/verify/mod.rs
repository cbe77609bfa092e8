//! `becalm verify`: is what a strategy left still what the plain search gives, and does the real
//! loader load the same objects as it would without it?
//!
//! [`becalm_core::strategy::verify`] judges one object, `load` has the loader run, [`index`]
//! compares an index with the search, and [`slots`] what its bindings write with what the loader writes.

pub mod index;
mod load;
pub mod slots;

use std::path::PathBuf;
use thiserror::Error;

use becalm_core::closure::SubjectKind;
use becalm_core::facts::Environment;
use becalm_core::strategy::Settings;
use becalm_core::strategy::verify::{self, Checked};
use bstr::BString;
use rayon::prelude::*;
use serde::{Serialize, Serializer};

use crate::assume::{self, AssumeError, Assumptions};
use crate::follow::{FollowError, Followed, follow_where};
use crate::json::{self, lossy, lossy_option};
use crate::problem::Problem;
use crate::progress::Progress;
use crate::targets::{self, Target};

pub use self::load::Loads;
pub use becalm_core::strategy::verify::Strategy;

/// Files judged with one look at the directories they share.
const IN_A_SESSION: usize = 64;

/// The files to verify.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The files, or folders of them.
    pub paths: Vec<PathBuf>,
    /// Whether the real loader loads each program, with and without its strategies.
    pub load: bool,
    /// Assumptions about the machine.
    pub assume: assume::Options,
}

/// The answers of strategies beside those of the search: the JSON document of `becalm verify`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The number of objects that were looked at.
    pub looked_at: usize,
    /// Those that have a strategy, in order of path.
    pub objects: Vec<Object>,
    /// The load sets of the programs, with and without their strategies (`--load`).
    pub loads: Vec<Loads>,
    /// Files and folders that could not be examined.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

/// One object that has a strategy.
#[derive(Clone, Debug, Serialize)]
pub struct Object {
    /// The object.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Its answers.
    pub answers: Vec<Answer>,
}

/// One answer beside that of the search.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The strategy that gives it.
    #[serde(rename = "carrier", serialize_with = "strategy")]
    pub strategy: Strategy,
    /// The needed string.
    #[serde(serialize_with = "lossy")]
    pub needed: BString,
    /// How the two compare.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// How an answer and the plain search compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The plain search gives the same.
    True,
    /// The plain search gives the same today. The answer passes over a directory that may change.
    Skips {
        /// The directory.
        #[serde(serialize_with = "lossy")]
        says: BString,
    },
    /// The answer and the plain search lead to different files.
    Stale {
        /// The file of the answer, if it is there.
        #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
        says: Option<BString>,
        /// The file of the plain search, if it finds one.
        #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
        is: Option<BString>,
    },
    /// There is no answer, and the plain search finds a file.
    Missing {
        /// The file.
        #[serde(serialize_with = "lossy")]
        is: BString,
    },
    /// The object does not need it.
    Superfluous,
    /// The note cannot be read. A loader goes on as if it were not there.
    Malformed {
        /// A description of the fault.
        says: String,
    },
}

impl json::Report for Report {
    const SCHEMA: &'static str = "becalm/verify/1";
}

/// Verifies the answers of the files that the options name. What is wrong with a single file is
/// part of the report.
///
/// # Errors
/// Returns an error if what is assumed of the machine cannot be had.
pub fn verify(options: &Options, progress: &dyn Progress) -> Result<Report, AssumeError> {
    let assumed = Assumptions::new(&options.assume)?;
    let found = targets::find(&assumed, &options.paths);
    let settings = Settings { stores: assumed.stores.clone(), ..Settings::default() };
    let verifier = Verifier { load: options.load, assumed, settings };
    let mut report = verifier.all(&found.files, progress);
    report.problems.extend(found.problems);
    Ok(report)
}

struct Verifier {
    load: bool,
    assumed: Assumptions,
    settings: Settings,
}

impl Verifier {
    fn all(&self, files: &[Target], progress: &dyn Progress) -> Report {
        let phase = progress.phase(files.len());
        let some = |files: &[Target]| {
            let mut report = Report::default();
            for target in files {
                if let Err(error) = self.one(target, &mut report) {
                    let reason = error.to_string();
                    report.problems.push(Problem { path: target.shown.clone(), reason });
                }
                phase.tick();
            }
            report
        };
        let parts: Vec<Report> = files.par_chunks(IN_A_SESSION).map(some).collect();
        drop(phase);
        let mut all = Report::default();
        for part in parts {
            all.looked_at += part.looked_at;
            all.objects.extend(part.objects);
            all.loads.extend(part.loads);
            all.problems.extend(part.problems);
        }
        all
    }

    fn one(&self, target: &Target, report: &mut Report) -> Result<(), NotVerified> {
        let session = self.assumed.fs.session();
        let environment = Environment::default();
        // Answers are judged by the object alone; only a program that is loaded needs its loader.
        let walks = |kind: &_| self.load && matches!(kind, SubjectKind::Program { .. });
        let followed = follow_where(&self.assumed, &session, target, &environment, walks)?;
        let closure = match followed {
            Followed::Elf(closure, _) => closure,
            Followed::MachO(_) | Followed::Nothing => return Ok(()),
        };
        report.looked_at += 1;
        let answers = verify::object(&session, &closure.subject, &self.settings);
        if !answers.is_empty() {
            let answers = answers.into_iter().map(Answer::from).collect();
            report.objects.push(Object { path: target.shown.clone(), answers });
        }
        if self.load && matches!(closure.subject.kind, SubjectKind::Program { .. }) {
            report.loads.push(load::compare(&session, &self.assumed, target, &closure)?);
        }
        Ok(())
    }
}

/// Why a file is not verified. The caller adds its path.
#[derive(Debug, Error)]
#[error(transparent)]
enum NotVerified {
    /// Its start cannot be followed.
    Follow(#[from] FollowError),
    /// Its load sets cannot be compared.
    Load(#[from] load::LoadError),
}

impl Report {
    /// Returns true if an answer is wrong or a program loads other objects.
    #[must_use]
    pub fn has_finding(&self) -> bool {
        let mut answers = self.objects.iter().flat_map(|object| &object.answers);
        answers.any(|answer| answer.verdict.is_finding()) || self.loads.iter().any(|l| !l.equal)
    }
}

impl Verdict {
    /// Returns true if the answer is wrong, is missing or cannot be read.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Missing { .. } | Self::Malformed { .. })
    }
}

impl From<Checked> for Answer {
    fn from(checked: Checked) -> Self {
        let verdict = match checked.verdict {
            verify::Verdict::True => Verdict::True,
            verify::Verdict::Skips(says) => Verdict::Skips { says },
            verify::Verdict::Stale { says, is } => Verdict::Stale { says, is },
            verify::Verdict::Missing(is) => Verdict::Missing { is },
            verify::Verdict::Superfluous => Verdict::Superfluous,
            verify::Verdict::Malformed(error) => Verdict::Malformed { says: error.to_string() },
        };
        Self { strategy: checked.strategy, needed: checked.needed, verdict }
    }
}

/// The strategy's name, as `--with` has it.
#[must_use]
pub fn name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Note => "note",
        Strategy::Absolute => "absolute",
        Strategy::Farm => "farm",
        Strategy::PackageCache => "ldcache",
    }
}

fn strategy<S: Serializer>(value: &Strategy, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name(*value))
}
