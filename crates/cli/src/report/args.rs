//! The flags of `becalm report`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use becalm_lib::assume;
use becalm_lib::report::{Options, Run};
use clap::{Args, ValueHint};

use crate::bench::variants::arguments;
use crate::common_args::seconds;

/// The flags of `becalm report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The program: a file, a name that is searched along PATH, or a record of
    /// `becalm trace --json`
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "survey",
        value_hint = ValueHint::FilePath
    )]
    pub program: Option<PathBuf>,

    /// The arguments for the program; without them and --run, `--version`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// Output file of the page; without it, the program's name and .html, in the current directory
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Open the page in the browser of the desktop (xdg-open)
    #[arg(long, help_heading = "Output")]
    pub open: bool,

    /// Make a page about a survey instead: the lines of `becalm check --ndjson`; - for standard
    /// input
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["program", "args", "after", "compare", "no_run", "run"],
        help_heading = "Content"
    )]
    pub survey: Option<PathBuf>,

    /// Program to show beside it: the program after a fix, or a record of its start
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::FilePath, help_heading = "Content")]
    pub after: Option<PathBuf>,

    /// The output of `lab compare --json`, as part of the page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Content")]
    pub compare: Option<PathBuf>,

    /// Run nothing: the prediction alone, without a timeline
    #[arg(long, conflicts_with_all = ["run", "args"], help_heading = "Content")]
    pub no_run: bool,

    /// The arguments for the program as one line, split as by a shell; '' for none
    #[arg(
        long,
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "args",
        help_heading = "Content"
    )]
    pub run: Option<String>,

    /// Kill a run that takes longer, in seconds, and leave the timeline out
    ///
    /// A program that does not end, such as a server, is run to its first idle moment: until all its threads have
    /// slept for half a second.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Content")]
    pub timeout: Duration,

    /// Assumptions about the machine.
    #[command(flatten)]
    pub assume: assume::Options,
}

impl ReportArgs {
    /// Returns the output file.
    pub(crate) fn output(&self) -> PathBuf {
        let named = || {
            let mut name = self.program.as_deref().and_then(Path::file_name)?.to_owned();
            name.push(".html");
            Some(name.into())
        };
        self.output.clone().or_else(named).unwrap_or_else(|| "survey.html".into())
    }

    /// Returns the library's options for the page.
    ///
    /// # Errors
    /// Returns an error if a quote in the line of `--run` is not closed.
    pub(crate) fn options(&self, program: &Path) -> Result<Options> {
        let run = || -> Result<Run> {
            let args = arguments(self.run.as_deref(), &self.args)?;
            Ok(Run { args, limit: self.timeout })
        };
        Ok(Options {
            program: program.to_owned(),
            after: self.after.clone(),
            run: (!self.no_run).then(run).transpose()?,
            assume: self.assume.clone(),
        })
    }
}
