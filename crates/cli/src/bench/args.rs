//! The flags of `becalm bench`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use becalm_host::bench::Until;
use clap::{Args, ValueEnum, ValueHint};

use crate::common_args::seconds;

/// The flags of `becalm bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The program whose start is measured: a path, or a name that is searched along PATH
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: PathBuf,

    /// The arguments of every variant; without them and --run, `--version`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// The arguments as one line, split as by a shell; '' for none
    #[arg(
        long,
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "args",
        help_heading = "Program"
    )]
    pub run: Option<String>,

    /// Another program to compare with the first; may be given again
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName, help_heading = "Program")]
    pub against: Vec<PathBuf>,

    /// The first program with a variable set, as another variant; may be given again
    ///
    /// NAME= sets it to the empty string, NAME alone removes it. Several variables are one variant
    /// if they are given as lines of a shell, `export A=1 B=2` and `unset C`, which becalm env
    /// prints.
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Program")]
    pub env: Vec<OsString>,

    /// The program started by becalm run, as two more variants: with and without pages read ahead
    #[arg(long, help_heading = "Program")]
    pub becalm: bool,

    /// End of the measured time
    ///
    /// `exit` is the whole run of the program. `idle` is for programs that do not end, such as
    /// servers: the run to its first idle moment, in which all its threads sleep for half a second,
    /// and at which it is killed. `entry` is the loader's work alone: from the execve to the entry
    /// point, where the program is killed.
    #[arg(long, value_name = "WHEN", default_value = "exit", help_heading = "Measurement")]
    pub until: Until,

    /// Rounds; in each, every variant is started once
    ///
    /// Without it, as many as fit into --time: 10 to 2,000.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        help_heading = "Measurement"
    )]
    pub rounds: Option<u16>,

    /// How long to measure, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "5",
        conflicts_with = "rounds",
        value_parser = seconds,
        help_heading = "Measurement"
    )]
    pub time: Duration,

    /// Warm-up rounds before those; they are not counted
    #[arg(
        long,
        value_name = "N",
        default_value = "2",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        help_heading = "Measurement"
    )]
    pub warmup: u16,

    /// Drop the kernel's caches of files and directories before each start
    ///
    /// This drops the caches of the whole machine, which needs root and slows all of it down for a
    /// while. For other users, the pages of the files that becalm run has recorded of the program are
    /// dropped; a note says what stays.
    #[arg(long, help_heading = "Measurement")]
    pub cold: bool,

    /// Kill a start that takes longer, in seconds, and give up
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "60",
        value_parser = seconds,
        help_heading = "Measurement"
    )]
    pub timeout: Duration,

    /// Seed for the order of the variants in each round
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Measurement")]
    pub seed: u64,

    /// Measure programs that fail as well
    ///
    /// Without it, an exit code other than 0 ends the measurement.
    #[arg(short, long, help_heading = "Measurement")]
    pub ignore_failure: bool,

    /// Write the measurement as json, csv (one row a start) or md, to FILE or stdout
    ///
    /// May be given again. Without a FILE it replaces the text on stdout.
    #[arg(long, value_name = "FORM[:FILE]", help_heading = "Output")]
    pub export: Vec<Export>,

    /// Write one JSON object, schema becalm/bench/1; the same as --export json
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// An output form, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// The form.
    pub form: Form,
    /// The file; `None` for stdout.
    pub file: Option<PathBuf>,
}

/// Forms in which a measurement can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// `becalm/bench/1`.
    Json,
    /// One row a start.
    Csv,
    /// A table for a page.
    #[value(name = "md")]
    Markdown,
}

impl FromStr for Export {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (form, file) = match text.split_once(':') {
            Some((_, "")) => anyhow::bail!("no file behind the colon"),
            Some((form, file)) => (form, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let form = Form::from_str(form, false);
        Ok(Self { form: form.map_err(|_| anyhow::anyhow!("not one of json, csv, md"))?, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_may_name_its_file() {
        let file = |text: &str| text.parse::<Export>().map(|export| export.file).ok();
        assert_eq!(file("csv:a:b.csv"), Some(Some("a:b.csv".into())));
        assert_eq!(file("md"), Some(None));
        assert!(["csv:", "xml", ""].iter().all(|wrong| file(wrong).is_none()));
    }

    #[test]
    fn seconds_that_no_clock_has_are_refused() {
        assert_eq!(seconds("0.5").ok(), Some(Duration::from_millis(500)));
        for wrong in ["0", "-1", "NaN", "inf", "1e30", "x", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
