//! The properties, each tried on programs built for it ([`sources`], [`lab`]). A trial gives
//! numbers; those of the untouched store show whether it can tell at all, and what comes out
//! under a strategy ([`Applied`]) is judged beside them. [`experiments`] has the trials, [`put`]
//! the strategies and [`static_build`] what needs none, [`columns`] all of them for a table.

pub(crate) mod bench;
pub(crate) mod columns;
pub(crate) mod experiments;
pub(crate) mod foreign;
pub(crate) mod lab;
pub(crate) mod put;
pub(crate) mod sources;
pub(crate) mod static_build;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::compare::comparison::{Cell, Verdict};
use crate::compare::table::answer;
use crate::compare::trials::experiments::{TRIALS, Trial};
use crate::compare::trials::lab::Lab;

/// A strategy, as a trial sees it.
pub(crate) trait Applied {
    /// Puts it on the programs and libraries of the lab's store.
    ///
    /// # Errors
    /// Why it could not be put on.
    fn apply(&mut self, lab: &Lab) -> Result<()>;

    /// The start of a program under it, in an environment that has these variables besides.
    ///
    /// # Errors
    /// Why there is no such program under it.
    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command>;
}

/// Results of a trial: numbers, or why there are none.
type Seen = Result<Vec<i64>, String>;

/// Makes all trials of `wanted` on one strategy, each on the same store; those that change what
/// was built come last.
fn see_all(lab: &Lab, applied: &mut dyn Applied, wanted: impl Fn(&Trial) -> bool) -> Vec<Seen> {
    let ready = lab.renew().and_then(|()| applied.apply(lab));
    let see = |trial: &Trial| match &ready {
        _ if !wanted(trial) => Err(String::new()),
        Err(why) => Err(format!("{why:#}")),
        Ok(()) => (trial.see)(lab, applied).map_err(|error| format!("{error:#}")),
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
