//! Predicts the starts of many files in parallel.

use std::convert::Infallible;
use std::path::PathBuf;

use becalm_core::closure::Closure;
use becalm_core::cost::SearchCost;
use becalm_host::Session;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::advice::Advice;
use crate::assume::{self, Assumptions};
use crate::check::budget::Budget;
use crate::check::{Program, Report, by_newer_glibc, check};
use crate::launch::{self, Finding, Launch};
use crate::progress::{Phase, Progress};
use crate::symbols::SymbolOptions;
use crate::targets::{Problem, Target};
use crate::{files, loaded_index, symbols};

/// The number of programs in a batch, if much data is kept of each.
const BATCH: usize = 64;
/// The number of programs that share one cached view of the directories. Later programs see changes
/// on disk. This many programs take a few milliseconds.
const MOST_IN_A_SESSION: usize = 32;
/// The minimum number of work items per thread, so that no thread waits long for another.
const PIECES_A_THREAD: usize = 4;

/// The fields of a [`Program`] that are reported in addition to its cost.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The most that each start may cost.
    pub budget: Budget,
    /// True if the cost with a newer glibc is reported.
    pub newer_glibc: bool,
    /// The assumptions for the plans of the advised strategies; `None` for no advice and no estimate.
    pub advice: Option<assume::Options>,
    /// The symbols that are reported; `None` for no symbols.
    pub symbols: Option<SymbolOptions>,
    /// True if the files of each start are listed.
    pub files: bool,
    /// True if the answers of the index are listed.
    pub index: bool,
    /// True if the probes are listed.
    pub probes: bool,
    /// True if the data of each program is too large to be kept for all of them.
    pub in_batches: bool,
}

/// The starts of files, and the scripts that lead to them.
pub struct Starts<'a> {
    assumed: &'a Assumptions,
    options: &'a Options,
    /// The scripts that lead to programs, by the program's path.
    launches: FxHashMap<BString, Launch>,
}

/// A predicted start with the result of the caller's function, or a file that could not be checked.
pub type Checked<T> = Result<(Box<Program>, T), Problem>;

impl<'a> Starts<'a> {
    /// Makes the starts of the files that [`launch::find`] found with the launches.
    #[must_use]
    pub fn new(assumed: &'a Assumptions, options: &'a Options, launches: Vec<Launch>) -> Self {
        let launches = launches.into_iter().map(|it| (it.program.clone(), it)).collect();
        Self { assumed, options, launches }
    }

    /// Returns the findings on the scripts, in order of the scripts.
    #[must_use]
    pub fn findings(&self) -> Vec<&Finding> {
        let findings = self.launches.values().flat_map(|launch| &launch.findings);
        let mut findings: Vec<&Finding> = findings.collect();
        findings.sort_by_key(|finding| &finding.script);
        findings
    }

    /// Predicts the starts of files. `show` is called for each start and its closure, from several
    /// threads; the closure is dropped afterwards. `take` gets the starts in the order of the
    /// files, in batches.
    ///
    /// # Errors
    /// Returns the error of `take`, which ends the work.
    pub fn check<T: Send, E>(
        &self,
        files: &[Target],
        progress: &Phase<'_>,
        show: impl Fn(&mut Program, Option<&Closure>) -> T + Sync,
        mut take: impl FnMut(Vec<Checked<T>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let batch = if self.options.in_batches { BATCH } else { files.len().max(1) };
        files.chunks(batch).try_for_each(|files| take(self.follow(files, progress, &show)))
    }

    /// Predicts the starts of some files. A single file is handled by this thread, without a thread
    /// pool.
    fn follow<T: Send>(
        &self,
        files: &[Target],
        progress: &Phase<'_>,
        show: &(impl Fn(&mut Program, Option<&Closure>) -> T + Sync),
    ) -> Vec<Checked<T>> {
        let some = |targets: &[Target]| {
            let session = self.assumed.fs.session();
            let one = |target| {
                let checked = self.follow_one(&session, target, show);
                progress(1);
                checked
            };
            targets.iter().filter_map(one).collect::<Vec<_>>()
        };
        match files {
            [_] => some(files),
            _ => {
                let share = files.len() / (PIECES_A_THREAD * rayon::current_num_threads());
                files.par_chunks(share.clamp(1, MOST_IN_A_SESSION)).flat_map_iter(some).collect()
            }
        }
    }

    fn follow_one<T>(
        &self,
        session: &Session<'_>,
        target: &Target,
        show: &impl Fn(&mut Program, Option<&Closure>) -> T,
    ) -> Option<Checked<T>> {
        let (mut program, closure) = match check(self.assumed, session, target) {
            Ok(checked) => checked?,
            Err(problem) => return Some(Err(problem)),
        };
        let launch = self.launches.get(&target.shown);
        program.scripts = launch.map_or_else(Vec::new, |it| it.scripts().cloned().collect());
        if let Some(closure) = &closure
            && let Err(problem) = self.add(session, target, (&mut program, closure))
        {
            return Some(Err(problem));
        }
        let of = (&mut *program, closure.as_ref());
        self.options.budget.judge((self.assumed, session), target, of);
        if self.options.probes {
            // A static program has no closure, and no probes.
            let probes = closure.as_ref().map(|closure| closure.probes().collect());
            program.probes = Some(probes.unwrap_or_default());
        }
        let shown = show(&mut program, closure.as_ref());
        Some(Ok((program, shown)))
    }

    /// Adds the fields that are derived from the closure.
    ///
    /// # Errors
    /// Returns a problem if the symbols cannot be looked up.
    fn add(
        &self,
        session: &Session<'_>,
        target: &Target,
        (program, closure): (&mut Program, &Closure),
    ) -> Result<(), Problem> {
        let (options, assumed) = (self.options, self.assumed);
        if options.files {
            let launch = self.launches.get(&target.shown);
            program.files = Some(files::of_start(assumed, session, launch, closure));
        }
        if options.index {
            program.indexed = loaded_index::indexed_start(assumed, session, closure);
        }
        if options.newer_glibc {
            program.newer_glibc = by_newer_glibc(assumed, session, (program, closure));
        }
        if let Some(assume) = &options.advice {
            add_advice(assume, assumed, session, target, (program, closure));
        }
        if let Some(options) = &options.symbols {
            program.symbols = symbols::report(options, assumed, closure)
                .map_err(|error| Problem::new(program.path.clone(), error))?;
        }
        Ok(())
    }
}

/// Adds the estimate of a start and, unless an index answers in it, the advice.
pub fn add_advice(
    assume: &assume::Options,
    assumed: &Assumptions,
    session: &Session<'_>,
    target: &Target,
    (program, closure): (&mut Program, &Closure),
) {
    program.add_estimate(assumed, session, target, closure);
    if program.calmed_by.is_none() {
        let estimate = program.estimate.as_ref();
        program.advice = Advice::of(assume, assumed, target, closure, estimate);
    }
}

/// Checks the programs among `paths` and below the folders among them. Scripts are replaced by
/// their programs.
#[must_use]
pub fn report(
    assumed: &Assumptions,
    options: &Options,
    paths: &[PathBuf],
    progress: &dyn Progress,
) -> Report {
    let (targets, launches) = launch::find(assumed, paths);
    let (mut programs, mut problems) = (Vec::new(), targets.problems);
    let phase = progress.phase(targets.files.len());
    let take = |checked: Vec<Checked<()>>| -> Result<(), Infallible> {
        for checked in checked {
            match checked {
                Ok((program, ())) => programs.push(*program),
                Err(problem) => problems.push(problem),
            }
        }
        Ok(())
    };
    let starts = Starts::new(assumed, options, launches);
    let Ok(()) = starts.check(&targets.files, phase.as_ref(), |_, _| (), take);
    let mut total = SearchCost::default();
    programs.iter().for_each(|program| total.add(&program.storm));
    Report { programs, total, problems }
}
