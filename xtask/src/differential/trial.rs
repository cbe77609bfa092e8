//! Compares the model's probes of one start with the records of the real loader.

use std::path::{Path, PathBuf};

use becalm_core::probe::Probe;
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, OracleError, Start, ld_debug};
use becalm_testing::strace::strace;
use bstr::{BStr, BString, ByteSlice};

use super::candidates::{Object, Place};
use crate::difference::{Difference, with_ld_debug, with_strace};
use crate::predict::Request;

/// A real directory for `LD_LIBRARY_PATH`, which has libraries of this machine.
const REAL_DIR: &str = "/usr/lib/x86_64-linux-gnu";

/// A start to compare.
pub(super) struct Trial<'a> {
    pub(super) place: &'a Place,
    pub(super) object: BString,
    pub(super) machine: String,
    loader: PathBuf,
    request: Request,
    start: Start,
    with_strace: bool,
}

/// The result of a trial.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Release of the C library, if it is known.
    pub(super) libc: String,
    /// Predicted probes.
    pub(super) probes: usize,
    /// Predicted misses: failed opens and stats.
    pub(super) misses: usize,
    /// The error, if there is one.
    pub(super) wrong: Option<Wrong>,
}

/// Reason why a trial proves nothing.
#[derive(Debug)]
pub(super) enum Wrong {
    /// Model and loader differ.
    Differs(String),
    /// The model returned an error.
    NoPrediction(String),
    /// The loader could not be run.
    NoRecord(String),
}

/// Returns the trials of one object: without and with `LD_LIBRARY_PATH`.
pub(super) fn of<'a>(
    place: &'a Place,
    object: &Object,
    empty: &Path,
    with_strace: bool,
) -> [Trial<'a>; 2] {
    let library_path = format!("{}:/nonexistent/lib:{REAL_DIR}", empty.display());
    let launch = || {
        let loader = object.loader.clone();
        match (object.starts, &place.loader) {
            (true, _) => Launch::Trace,
            (false, None) => Launch::TraceBy { loader },
            (false, Some(_)) => Launch::List { loader },
        }
    };
    let trial = |env: Vec<(String, String)>| {
        let mut start = Start::new(&object.path, launch());
        for (name, value) in &env {
            start = start.env(name, value);
        }
        if let Some((name, value)) = place.emulated_cpu() {
            start = start.env(name, value);
        }
        start.root = place.root.clone();
        start.emulator = place.emulator.clone();
        let loader = (!object.starts).then(|| object.loader.clone());
        Trial {
            place,
            object: object.path.as_os_str().as_encoded_bytes().into(),
            machine: object.machine.clone(),
            loader: object.loader.clone(),
            request: Request {
                object: object.path.clone(),
                root: place.root.clone(),
                loader,
                env,
                secure: false,
            },
            start,
            with_strace,
        }
    };
    [trial(Vec::new()), trial(vec![("LD_LIBRARY_PATH".into(), library_path)])]
}

impl Trial<'_> {
    /// Returns true if `LD_LIBRARY_PATH` is set.
    pub(super) fn has_library_path(&self) -> bool {
        !self.request.env.is_empty()
    }

    /// Predicts, runs and compares.
    pub(super) fn compare(&self) -> Verdict {
        let mut verdict = Verdict { libc: "unknown".into(), probes: 0, misses: 0, wrong: None };
        let facts = self.place.facts_of(&self.loader);
        let prediction = match self.request.answer_on(&self.place.fs, facts) {
            Ok(prediction) => prediction,
            Err(error) => {
                verdict.wrong = Some(Wrong::NoPrediction(format!("{error:#}")));
                return verdict;
            }
        };
        verdict.libc = prediction.libc;
        verdict.probes = prediction.probes.len();
        verdict.misses = prediction.probes.iter().filter(|p| p.outcome.is_failed_call()).count();
        let cache = prediction.cache.as_deref().map(BStr::new);
        verdict.wrong = match self.difference(&prediction.probes, cache) {
            Ok(difference) => difference.map(Wrong::Differs),
            Err(error) => Some(Wrong::NoRecord(describe(&error))),
        };
        verdict
    }

    fn difference(
        &self,
        predicted: &[Probe],
        cache: Option<&BStr>,
    ) -> Result<Option<String>, OracleError> {
        let musl = self.place.loader.is_some();
        if !musl {
            let said = ld_debug(&self.start)?;
            if let Some(difference) = with_ld_debug(predicted, &said.probes) {
                return Ok(Some(named("LD_DEBUG", &difference)));
            }
        }
        if !(self.with_strace || musl) {
            return Ok(None);
        }
        let own = self.start.named_loader().map(|_| self.object.as_bstr());
        let seen = candidates(strace(&self.start)?.attempts(), cache, own);
        Ok(with_strace(predicted, &seen).map(|difference| named("strace", &difference)))
    }
}

fn named(record: &str, difference: &Difference) -> String {
    format!("{record}: {difference}")
}

fn describe(error: &OracleError) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
