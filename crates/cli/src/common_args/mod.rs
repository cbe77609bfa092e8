//! The types and parsers of flags that several commands have.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use becalm_core::strategy::Strategy;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// Which strategies loaders read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReadsArg {
    /// Strategies that loaders read beyond those of released ones: notes, package caches, or both
    ///
    /// Without it, becalm reads this from the loader's file: a loader with becalm's patches has the
    /// mark of complete notes and its store prefixes there, and obeys GLIBC_TUNABLES
    /// (glibc.rtld.resolution); any other loader reads neither. Only complete notes are read. ldcache
    /// applies to caches of packages below --store.
    #[arg(
        long,
        value_name = "STRATEGY",
        value_delimiter = ',',
        value_parser = readable(),
        help_heading = "Assumptions"
    )]
    reads: Vec<Option<Strategy>>,
}

/// The end of the observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// To the end of the program.
    Exit,
    /// To its entry point: the loader's work alone.
    Entry,
}

/// Parses a number of seconds, with or without a fraction; at most a day.
pub(crate) fn seconds(text: &str) -> Result<Duration> {
    const DAY: f64 = 86_400.0;
    let number: f64 = text.parse().map_err(|_| anyhow!("not a number of seconds"))?;
    if !(number > 0.0 && number <= DAY) {
        bail!("not between 0 and a day");
    }
    Ok(Duration::try_from_secs_f64(number)?)
}

impl ReadsArg {
    /// Returns the strategies, as the library takes them: none if the flag is not given.
    pub(crate) fn strategies(&self) -> Option<Vec<Strategy>> {
        (!self.reads.is_empty()).then(|| self.reads.iter().flatten().copied().collect())
    }
}

/// Parses a strategy that a loader may have been patched to read, or `none`.
fn readable() -> impl TypedValueParser<Value = Option<Strategy>> {
    let values = Strategy::ALL.iter().filter(|strategy| strategy.row().format.is_some());
    let values = values.filter_map(ValueEnum::to_possible_value);
    let none = PossibleValue::new("none").help("Neither");
    PossibleValuesParser::new([none].into_iter().chain(values))
        .map(|name| Strategy::from_str(&name, false).ok())
}
