//! The properties, each tested on programs built for the test ([`sources`], [`lab`]). A trial
//! returns numbers. The trial is valid only if the numbers of the unchanged store show that a
//! difference can be detected. The numbers with a strategy ([`Applied`]) are compared with the
//! numbers of the unchanged store. [`experiments`] has the trials, [`put`] the strategies
//! and the static programs, [`columns`] all columns of a table.

pub(super) mod columns;
mod experiments;
mod foreign;
mod lab;
mod put;
mod sources;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::compare::outcome::words;
use crate::compare::placed::Program;
use crate::compare::table::answer;
use crate::compare::trials::experiments::{TRIALS, Trial};
use crate::compare::trials::lab::Lab;
use becalm_lib::compare::comparison::{Cell, Verdict};

/// Inputs of the trials.
pub(super) struct Bench<'a> {
    /// A directory for labs.
    pub place: &'a Path,
    /// The program of the table, for its hwcaps subdirectories and its store.
    pub program: &'a Program,
    /// A loader that reads notes and caches.
    pub loader: Option<&'a Path>,
}

/// A strategy, in the form that a trial uses.
trait Applied {
    /// Applies the strategy to the programs and libraries of the lab's store.
    ///
    /// # Errors
    /// Returns an error if the strategy could not be applied.
    fn apply(&mut self, lab: &Lab) -> Result<()>;

    /// Returns the command that starts a program with the strategy and with further variables.
    ///
    /// # Errors
    /// Returns an error if there is no such program.
    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command>;
}

/// The numbers of a trial, or the reason why there are none: there is no lab, the strategy could not be
/// applied, or the trial failed. The reason is empty for a trial that was not requested.
type Seen = Result<Vec<i64>, String>;

/// Runs the trials of `wanted` with one strategy, all on the same store. Trials that change the
/// store are last.
fn see_all(lab: &Lab, applied: &mut dyn Applied, wanted: impl Fn(&Trial) -> bool) -> Vec<Seen> {
    let ready = lab.renew().and_then(|()| applied.apply(lab)).map_err(words);
    let see = |trial: &Trial| match &ready {
        _ if !wanted(trial) => Err(String::new()),
        Err(why) => Err(why.clone()),
        Ok(()) => (trial.see)(lab, applied).map_err(words),
    };
    TRIALS.iter().map(see).collect()
}

/// Returns the cell of a trial for a strategy.
fn judged(trial: &Trial, control: &Seen, seen: &Seen) -> Cell {
    let control = match control {
        Ok(control) if (trial.tells)(control) => control,
        Ok(_) => {
            let why = "the untouched program does not show it here";
            return answer(Verdict::NotTried, Some(why.to_owned()));
        }
        Err(why) => return answer(Verdict::NotTried, Some(why.clone())),
    };
    match seen {
        Ok(seen) => {
            let (verdict, note) = (trial.judge)(control, seen);
            answer(verdict, note)
        }
        Err(why) => answer(Verdict::No, Some(why.clone())),
    }
}
