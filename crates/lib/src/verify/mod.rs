//! `becalm verify`: checks that the answers of a strategy still match the plain search, and that
//! the real loader loads the same objects with and without it.
//!
//! [`becalm_core::strategy::verify`] checks one object, `load` runs the loader, [`index`] compares
//! an index with the search, and [`slots`] compares the slots that its bindings write with those
//! that the loader writes.

pub mod index;
mod load;
pub mod slots;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use becalm_core::closure::SubjectKind;
use becalm_core::facts::Environment;
use becalm_core::strategy::Settings;
use becalm_core::strategy::verify::{self, Checked, Unjudged};
use bstr::{BStr, BString};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::{self, Assumptions};
use crate::fix::audit::SUFFIX as OF_PROGRAM;
use crate::follow::{Followed, follow_where};
use crate::index::error::Damaged as DamagedIndex;
use crate::index::{file, platforms};
use crate::json::{self, lossy};
use crate::path::path_bytes;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::targets::{self, Target};
use crate::words::words_of_chain;

pub use self::index::{Damaged, Verified};
pub use self::load::Loads;

/// The files to verify.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The files, or folders of them.
    pub paths: Vec<PathBuf>,
    /// True if the real loader loads each program, with and without its strategies.
    pub load: bool,
    /// Assumptions about the machine.
    pub assume: assume::Options,
}

/// The answers of strategies and indexes, compared with those of the search: the JSON document of
/// `becalm verify`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The number of objects that were examined, without indexes.
    pub looked_at: usize,
    /// The objects with a strategy, in order of path.
    pub objects: Vec<Object>,
    /// The load sets of the programs, with and without their strategies (`--load`).
    pub loads: Vec<Loads>,
    /// The indexes that are named, are in a named folder, or are in the `DT_AUDIT` of a program
    /// there; each once.
    pub indexes: Vec<Verified>,
    /// Files that should be indexes, but are damaged or missing.
    pub damaged: Vec<Damaged>,
    /// Objects with a farm or a loader cache that was not compared, because its store is not named
    /// (`--store`).
    pub unjudged: Vec<Unjudged>,
    /// Files and folders that could not be examined.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

/// One object with a strategy.
#[derive(Clone, Debug, Serialize)]
pub struct Object {
    /// The object.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Its answers.
    pub answers: Vec<Checked>,
}

json::schema!(Report, "becalm/verify/1");

/// Verifies the answers of the files that the options name. An error of a single file is part of
/// the report.
///
/// # Errors
/// Returns an error if the assumptions about the machine cannot be established.
pub fn verify(options: &Options, progress: &dyn Progress) -> Result<Report> {
    let assumed = Assumptions::new(&options.assume)?;
    let found = targets::find(&assumed, &options.paths);
    let settings = Settings { stores: assumed.stores.clone(), ..Settings::default() };
    let verifier = Verifier { load: options.load, assumed, settings };
    let phase = progress.phase(found.files.len());
    let part = |target: &Target| {
        let (mut report, mut indexes) = (Report::default(), Vec::new());
        if let Err(error) = verifier.one(target, &mut report, &mut indexes) {
            report.problems.push(Problem::new(target.shown.clone(), error));
        }
        phase(1);
        (report, indexes)
    };
    let parts: Vec<_> = found.files.par_iter().map(part).collect();
    drop(phase);
    let (mut all, mut indexes) = (Report::default(), Vec::new());
    for (report, found) in parts {
        all.looked_at += report.looked_at;
        all.objects.extend(report.objects);
        all.loads.extend(report.loads);
        all.unjudged.extend(report.unjudged);
        all.problems.extend(report.problems);
        indexes.extend(found);
    }
    verifier.indexes(indexes, &mut all);
    all.problems.extend(found.problems);
    Ok(all)
}

struct Verifier {
    load: bool,
    assumed: Assumptions,
    settings: Settings,
}

/// An index among the files, or one that a program names.
struct FoundIndex {
    shown: BString,
    host: PathBuf,
    /// The program whose `DT_AUDIT` names it.
    program: Option<BString>,
}

impl Verifier {
    /// Verifies one file. Its `indexes` are compared once all files are known.
    fn one(
        &self,
        target: &Target,
        report: &mut Report,
        indexes: &mut Vec<FoundIndex>,
    ) -> Result<()> {
        if should_be_index(target) {
            let (shown, host) = (target.shown.clone(), target.host.clone());
            indexes.push(FoundIndex { shown, host, program: None });
            return Ok(());
        }
        let session = self.assumed.fs.session();
        let environment = Environment::default();
        // Answers are checked with the object alone; only a program that is loaded needs its
        // loader.
        let walks = |kind: SubjectKind| self.load && kind == SubjectKind::Program;
        let followed = follow_where(&self.assumed, &session, target, &environment, walks)?;
        let closure = match followed {
            Followed::Elf(closure, _) => closure,
            Followed::MachO(_) | Followed::Nothing => return Ok(()),
        };
        report.looked_at += 1;
        let answers = verify::object(&session, &closure.subject, &self.settings);
        if !answers.is_empty() {
            report.objects.push(Object { path: target.shown.clone(), answers });
        }
        let unjudged = verify::unjudged(&session, &closure.subject, &self.settings, &target.shown);
        report.unjudged.extend(unjudged);
        let audit = closure.subject.view.dynamic.as_ref().and_then(|d| d.audit.as_ref());
        // `DT_AUDIT` has paths of the running system, which are others inside another root.
        if let Some(list) = audit.filter(|_| self.assumed.fs.is_real_root()) {
            indexes.extend(named_indexes(target, list.as_ref()));
        }
        if self.load && closure.subject.kind == SubjectKind::Program {
            report.loads.push(load::compare(&session, &self.assumed, target, &closure)?);
        }
        Ok(())
    }

    /// Compares the indexes, each once.
    fn indexes(&self, found: Vec<FoundIndex>, report: &mut Report) {
        let mut seen = FxHashSet::default();
        for FoundIndex { shown, host, program } in found {
            let place = crate::path::real(&host);
            if !seen.insert(place) {
                continue;
            }
            match index::verify(&host, self.load) {
                Ok((mut verified, problems)) => {
                    verified.path = shown;
                    report.indexes.push(verified);
                    report.problems.extend(problems);
                }
                Err(error) => match damage(&error, program.is_some()) {
                    Some(reason) => report.damaged.push(Damaged { path: shown, program, reason }),
                    None => {
                        report.problems.push(Problem::new(shown, words_of_chain(error.as_ref())))
                    }
                },
            }
        }
    }
}

/// Returns true for an index, damaged or not. For a named file, its path counts as well: a damaged
/// index may have so little left that only the path identifies it.
fn should_be_index(target: &Target) -> bool {
    let path = &target.host;
    let is_place =
        || path.as_os_str().as_bytes().ends_with(OF_PROGRAM) || platforms::is_beside(path);
    file::is_index(path) || (target.named && is_place())
}

/// Returns the indexes that a program's `DT_AUDIT` names, and the missing one of
/// `becalm fix --with audit`.
fn named_indexes(target: &Target, list: &BStr) -> Vec<FoundIndex> {
    let elements = list.split(|&byte| byte == b':').filter(|element| !element.is_empty());
    let found = elements.filter_map(|element| {
        let host = platforms::index_of(OsStr::from_bytes(element));
        let is_own = element.ends_with(OF_PROGRAM);
        (is_own || file::is_index(&host)).then(|| FoundIndex {
            shown: path_bytes(&host),
            host,
            program: Some(target.shown.clone()),
        })
    });
    found.collect()
}

/// Describes the damage of an index; `None` for an index that cannot be read.
fn damage(error: &anyhow::Error, is_needed: bool) -> Option<String> {
    if let Some(damaged) = error.downcast_ref::<DamagedIndex>() {
        return std::error::Error::source(damaged).map(words_of_chain);
    }
    let is_missing = |it: &std::io::Error| is_needed && it.kind() == ErrorKind::NotFound;
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(is_missing).then(|| "not there".to_owned())
}

impl Report {
    /// Returns true if an answer is wrong, a program loads other objects, or a farm or a loader cache
    /// was not compared.
    #[must_use]
    pub fn has_finding(&self) -> bool {
        let mut answers = self.objects.iter().flat_map(|object| &object.answers);
        answers.any(|answer| answer.verdict.is_finding())
            || self.loads.iter().any(|loads| !loads.equal)
            || !self.unjudged.is_empty()
    }

    /// Returns true if an index is stale, damaged or missing.
    #[must_use]
    pub fn has_bad_index(&self) -> bool {
        !self.damaged.is_empty() || self.indexes.iter().any(|index| !index.differences.is_empty())
    }
}
