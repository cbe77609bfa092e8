//! The flags that describe the machine on which programs start; the same for every command that
//! predicts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use becalm_core::loader::Libc;
use becalm_core::strategy::Strategy;
use becalm_lib::assume;
use becalm_lib::fix::options::of_files;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

use becalm_lib::assume::{Secure, StorePrefixes};

/// Assumptions about the machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct AssumeArgs {
    /// Take DIR for the root directory, as for another machine or architecture
    ///
    /// Absolute links inside DIR lead to places inside DIR, and nothing leads out of it. A PATH may
    /// be written from either root. The LD_ variables of the environment are then ignored.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Assumptions")]
    pub sysroot: Option<PathBuf>,

    /// The LD_LIBRARY_PATH to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[arg(long, value_name = "LIST", help_heading = "Assumptions")]
    pub library_path: Option<OsString>,

    /// The LD_PRELOAD to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[arg(long, value_name = "LIST", help_heading = "Assumptions")]
    pub preload: Option<OsString>,

    /// The LD_AUDIT to assume; '' for none
    ///
    /// Without it, that of the environment; none with --sysroot.
    #[arg(long, value_name = "LIST", help_heading = "Assumptions")]
    pub audit: Option<OsString>,

    /// The loader to assume: for libraries, and in place of the interpreter of a program
    #[arg(long, value_name = "LD.SO", value_hint = ValueHint::FilePath, help_heading = "Assumptions")]
    pub loader: Option<PathBuf>,

    /// The C library whose rules apply: glibc-2.31 to glibc-2.44, or musl
    #[arg(long, value_name = "NAME", help_heading = "Assumptions")]
    pub libc: Option<Libc>,

    /// The CPU whose hwcaps subdirectories are searched
    ///
    /// A level (x86-64-v3), a generation (haswell, power9, z14) or `baseline` for what every CPU of
    /// the architecture has. An unknown name is rejected with a list of the known ones.
    #[arg(long, value_name = "NAME", help_heading = "Assumptions")]
    pub cpu: Option<String>,

    /// Start programs in secure-execution mode, without LD_LIBRARY_PATH, or not
    ///
    /// `auto` predicts it as the kernel decides it: for set-id files of another user
    /// or group, and, for an ordinary user, files with capabilities.
    #[arg(long, value_name = "WHETHER", default_value = "auto", help_heading = "Assumptions")]
    pub secure: Secure,

    /// The store prefixes.
    #[command(flatten)]
    pub store: StoreArg,
}

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

/// Which directories are immutable.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArg {
    /// Prefixes of stores: directories below one never change once made; may be repeated
    ///
    /// Only such directories may be skipped by an answer. Paths below a prefix are marked as
    /// immutable in the JSON.
    #[arg(
        long,
        value_name = "A:B",
        default_value = "/nix/store:/gnu/store",
        help_heading = "Assumptions"
    )]
    pub store: Vec<OsString>,
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

impl AssumeArgs {
    /// Returns the assumptions as the library's options.
    pub(crate) fn options(&self) -> assume::Options {
        assume::Options {
            sysroot: self.sysroot.clone(),
            library_path: self.library_path.clone(),
            preload: self.preload.clone(),
            audit: self.audit.clone(),
            loader: self.loader.clone(),
            libc: self.libc,
            cpu: self.cpu.clone(),
            secure: self.secure,
            store: self.store.prefixes(),
        }
    }
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

/// Parses the name of a strategy of `becalm fix`.
pub(crate) fn strategy_of_fix() -> impl TypedValueParser<Value = Strategy> {
    let values = of_files().filter_map(|strategy| strategy.to_possible_value());
    PossibleValuesParser::new(values).try_map(|name| Strategy::from_str(&name, false))
}

impl StoreArg {
    /// Returns the prefixes as the library's type.
    pub(crate) fn prefixes(&self) -> StorePrefixes {
        StorePrefixes(self.store.join(OsStr::new(":")))
    }
}
