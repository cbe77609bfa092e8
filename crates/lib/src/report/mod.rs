//! The data of a page about a program's start (`becalm report`): the predicted search and objects,
//! the results of a run, and the same data of the program after a strategy was applied.
//!
//! `snapshot` predicts a program and runs it once, [`record`] reads a record of `becalm trace`.

mod modules;
pub mod record;
mod snapshot;
pub mod start;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use self::start::{Observed, Snapshot};
use crate::assume::{self, Assumptions};

/// The programs on the page, and the settings of their runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, or a record of its start.
    pub program: PathBuf,
    /// The program after a strategy was applied, or a record of its start.
    pub after: Option<PathBuf>,
    /// The run for the timeline; `None` to run nothing.
    pub run: Option<Run>,
    /// Assumptions about the machine.
    pub assume: assume::Options,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The arguments.
    pub args: Vec<OsString>,
    /// The time after which the program is killed.
    pub limit: Duration,
}

/// The data of the page.
#[derive(Debug)]
pub struct Report {
    /// The program as it is.
    pub before: Snapshot,
    /// The program after a strategy was applied.
    pub after: Option<Snapshot>,
    /// A run of the program with an index of its own, or the reason why there is none; `None` if nothing
    /// is run, and beside `after`.
    pub indexed: Option<Result<Observed, String>>,
}

/// Predicts the program before and after the strategy, and runs each once if requested.
///
/// # Errors
/// Returns an error if one of them cannot be read. A run that fails is part of the report.
pub fn report(options: &Options) -> Result<Report> {
    let mut assumed = Assumptions::new(&options.assume)?;
    assumed.reads(None);
    let mut before = snapshot::of(&options.program, options, &assumed)?;
    let after = options.after.as_deref();
    let after = after.map(|path| snapshot::of(path, options, &assumed)).transpose()?;
    let indexed = match &mut before.observed {
        Ok(plain) if after.is_none() && !before.is_record => {
            snapshot::indexed(plain, options, &assumed)
        }
        _ => None,
    };
    if let (Some(Ok(indexed)), Ok(plain), Some(advice)) =
        (&indexed, &before.observed, &mut before.advice)
    {
        advice.set_measured(plain.loader_ns, indexed.loader_ns);
    }
    Ok(Report { before, after, indexed })
}
