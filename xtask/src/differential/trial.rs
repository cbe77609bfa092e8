//! Compares the model's probes of one start with the records of the real loader.

use std::path::Path;

use anyhow::Result;
use becalm_core::probe::Probe;
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, Start, ld_debug};
use becalm_testing::strace::strace;
use bstr::BStr;

use super::candidates::{Object, Place};
use crate::difference::{with_ld_debug, with_strace};
use crate::predict::Request;

/// A real directory for `LD_LIBRARY_PATH`, which has libraries of this machine.
const REAL_DIR: &str = "/usr/lib/x86_64-linux-gnu";

/// A start to compare.
pub(super) struct Trial<'a> {
    pub(super) place: &'a Place,
    pub(super) object: &'a Object,
    pub(super) has_library_path: bool,
    start: Start,
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
    /// The reason why the trial proves nothing, with the name of its count.
    pub(super) wrong: Option<(&'static str, String)>,
}

/// Returns the trials of one object: without and with `LD_LIBRARY_PATH`.
pub(super) fn of<'a>(place: &'a Place, object: &'a Object, empty: &Path) -> [Trial<'a>; 2] {
    let loader = || object.loader.clone();
    [false, true].map(|has_library_path| {
        let launch = match (object.starts, &place.loader) {
            (true, _) => Launch::Trace,
            (false, None) => Launch::TraceBy { loader: loader() },
            (false, Some(_)) => Launch::List { loader: loader() },
        };
        let mut start = Start::new(&object.path, launch);
        if has_library_path {
            let dirs = format!("{}:/nonexistent/lib:{REAL_DIR}", empty.display());
            start = start.env("LD_LIBRARY_PATH", dirs);
        }
        if let Some((name, value)) = place.emulated_cpu() {
            start = start.env(name, value);
        }
        start.root = place.root.clone();
        start.emulator = place.emulator.clone();
        Trial { place, object, has_library_path, start }
    })
}

impl Trial<'_> {
    /// Predicts, runs and compares.
    pub(super) fn compare(&self) -> Verdict {
        let mut verdict = Verdict { libc: "unknown".into(), probes: 0, misses: 0, wrong: None };
        let facts = self.place.facts_of(&self.object.loader);
        let prediction = match Request::of(&self.start).answer_on(&self.place.fs, facts) {
            Ok(prediction) => prediction,
            Err(error) => {
                verdict.wrong = Some(("no answer", format!("no prediction: {error:#}")));
                return verdict;
            }
        };
        verdict.libc = prediction.libc;
        verdict.probes = prediction.probes.len();
        verdict.misses = prediction.probes.iter().filter(|p| p.outcome.is_failed_call()).count();
        let cache = prediction.cache.as_deref().map(BStr::new);
        verdict.wrong = match self.difference(&prediction.probes, cache) {
            Ok(difference) => difference.map(|what| ("differ", what)),
            Err(error) => Some(("not run", format!("not run: {error:#}"))),
        };
        verdict
    }

    fn difference(&self, predicted: &[Probe], cache: Option<&BStr>) -> Result<Option<String>> {
        let musl = self.place.loader.is_some();
        if !musl {
            let said = ld_debug(&self.start)?;
            if let Some(difference) = with_ld_debug(predicted, &said.probes) {
                return Ok(Some(format!("LD_DEBUG: {difference}")));
            }
        }
        let own = self.object.path.as_os_str().as_encoded_bytes();
        let own = self.start.named_loader().map(|_| BStr::new(own));
        let seen = candidates(strace(&self.start)?.attempts(), cache, own);
        Ok(with_strace(predicted, &seen).map(|difference| format!("strace: {difference}")))
    }
}
