//! The properties, each tried on programs built for it ([`sources`], [`lab`]). A trial gives
//! numbers; those of the untouched store show whether it can tell at all, and what comes out
//! under a strategy ([`Applied`]) is judged beside them. [`experiments`] has the trials, [`put`]
//! the strategies and [`static_build`] what needs none, [`columns`] all of them for a table.

pub(super) mod bench;
pub(super) mod columns;
mod error;
mod experiments;
mod foreign;
mod lab;
mod put;
mod sources;
mod static_build;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::compare::comparison::{Cell, Verdict};
use crate::compare::table::answer;
use crate::compare::trials::error::TrialError;
use crate::compare::trials::experiments::{TRIALS, Trial};
use crate::compare::trials::lab::Lab;
use crate::words::words_of_chain;

/// A strategy, as a trial sees it.
trait Applied {
    /// Puts it on the programs and libraries of the lab's store.
    ///
    /// # Errors
    /// Why it could not be put on.
    fn apply(&mut self, lab: &Lab) -> Result<(), TrialError>;

    /// The start of a program under it, in an environment that has these variables besides.
    ///
    /// # Errors
    /// Why there is no such program under it.
    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command, TrialError>;
}

/// The numbers of a trial, or why there are none.
type Seen = Result<Vec<i64>, NotSeen>;

/// Why a trial shows no numbers.
#[derive(Clone, Debug)]
enum NotSeen {
    /// It is not wanted.
    Unwanted,
    /// There is no lab, the strategy could not be applied, or the trial failed.
    Failed(Arc<TrialError>),
}

impl NotSeen {
    fn reason(&self) -> String {
        match self {
            Self::Unwanted => String::new(),
            Self::Failed(error) => words_of_chain(error.as_ref()),
        }
    }
}

/// Makes all trials of `wanted` on one strategy, each on the same store; those that change what
/// was built come last.
fn see_all(lab: &Lab, applied: &mut dyn Applied, wanted: impl Fn(&Trial) -> bool) -> Vec<Seen> {
    let ready = lab.renew().and_then(|()| applied.apply(lab)).map_err(Arc::new);
    let see = |trial: &Trial| match &ready {
        _ if !wanted(trial) => Err(NotSeen::Unwanted),
        Err(error) => Err(NotSeen::Failed(Arc::clone(error))),
        Ok(()) => (trial.see)(lab, applied).map_err(|error| NotSeen::Failed(Arc::new(error))),
    };
    TRIALS.iter().map(see).collect()
}

/// A trial's answer for a strategy.
fn judged(trial: &Trial, control: &Seen, seen: &Seen) -> Cell {
    let control = match control {
        Ok(control) if (trial.tells)(control) => control,
        Ok(_) => {
            let why = "the untouched program does not show it here";
            return answer(Verdict::NotTried, Some(why.to_owned()));
        }
        Err(why) => return answer(Verdict::NotTried, Some(why.reason())),
    };
    match seen {
        Ok(seen) => {
            let (verdict, note) = (trial.judge)(control, seen);
            answer(verdict, note)
        }
        Err(why) => answer(Verdict::No, Some(why.reason())),
    }
}
