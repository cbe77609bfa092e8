//! The most that a start may cost, for a test in CI.

use becalm_core::closure::Closure;
use becalm_host::Session;

use crate::assume::Assumptions;
use crate::check::{Kind, Program};
use crate::estimate::work_of;
use crate::targets::Target;
use crate::words::{counted, grouped};

/// The limits of each start, as flags of `becalm check`; `None` for a cost without a limit.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Budget {
    /// Exit with 1 if a program has more than N failing opens and stats
    ///
    /// The budget applies to each program by itself; stderr names those over it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Output"))]
    pub max_misses: Option<u64>,

    /// Exit with 1 if the loader looks up more than N symbols for a program, without an index
    ///
    /// Like the misses, a count: the same on each machine with these files.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Output"))]
    pub max_lookups: Option<u64>,

    /// Exit with 1 if a program takes the loader more than MS milliseconds
    ///
    /// The time is estimated, as that of the first line: it depends on this machine's speed. A
    /// program whose time cannot be estimated here is a failure.
    #[cfg_attr(feature = "clap", arg(long, value_name = "MS", help_heading = "Output"))]
    pub max_ms: Option<f64>,
}

impl Budget {
    /// True if a cost has a limit.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.max_misses.is_some() || self.max_lookups.is_some() || self.max_ms.is_some()
    }

    /// Counts what is limited in a start, and sets whether it is over the budget.
    pub fn judge(
        &self,
        (assumed, session): (&Assumptions, &Session<'_>),
        target: &Target,
        (program, closure): (&mut Program, Option<&Closure>),
    ) {
        if let Some(closure) = closure {
            if self.max_ms.is_some() && program.estimate.is_none() {
                program.add_estimate(assumed, session, target, closure);
            }
            if self.max_lookups.is_some() {
                let known = program.estimate.map(|estimate| estimate.relocation);
                let work = known.or_else(|| work_of(assumed, closure));
                program.lookups = work.map(|work| work.lookups);
            }
        }
        program.over_budget = match self.over(program).is_empty() {
            true if !self.has_limits() || self.not_judged(program).is_some() => None,
            is_within => Some(!is_within),
        };
    }

    /// Returns the costs that are over the budget, in words.
    #[must_use]
    pub fn over(&self, program: &Program) -> Vec<String> {
        let over = |cost: Option<u64>, most: Option<u64>, what: [&str; 2]| {
            let (cost, most) = cost.zip(most).filter(|(cost, most)| cost > most)?;
            Some(format!(
                "{}, over the budget of {}",
                counted(cost, what[0], what[1]),
                grouped(most)
            ))
        };
        let ms = program.loader_ns().map(|ns| ns as f64 / 1e6).zip(self.max_ms);
        let ms = ms.filter(|(ms, most)| ms > most).map(|(ms, most)| {
            format!("about {ms:.1} ms of loader before main, over the budget of {most}")
        });
        let lookups = ["symbol lookup", "symbol lookups"];
        [
            over(Some(program.storm.misses()), self.max_misses, ["miss", "misses"]),
            over(program.lookups, self.max_lookups, lookups),
            ms,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns what is limited and not known of a start by a loader, in words.
    #[must_use]
    pub fn not_judged(&self, program: &Program) -> Option<&'static str> {
        let has_loader = matches!(program.kind, Kind::Program | Kind::Library);
        if has_loader && self.max_lookups.is_some() && program.lookups.is_none() {
            return Some("the budget of lookups is not judged: its relocations cannot be read");
        }
        let is_timed = program.kind == Kind::Program && self.max_ms.is_some();
        let is_unknown = is_timed && program.loader_ns().is_none();
        is_unknown
            .then_some("the budget of time is not judged: not a start by glibc on this machine")
    }
}
