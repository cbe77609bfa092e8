//! becalm: predicts, without running anything, every probe of the dynamic loader.
//!
//! The main path: [`flags`] says what was asked, one of [`commands`] does it with
//! `becalm-host` and `becalm-core`, [`output`] tells it, [`exit_code`] sums it up.

mod commands;
mod exit_code;
mod flags;
mod manual;
mod output;
mod progress;
mod sanitize;

use std::process::ExitCode;

use anyhow::Result;

use crate::exit_code::ExitStatus;
use crate::flags::{Command, Flags};

fn main() -> ExitCode {
    let flags = flags::parse();
    match run(&flags) {
        Ok(status) => status.into(),
        Err(error) if output::is_broken_pipe(&error) => ExitStatus::BROKEN_PIPE.into(),
        Err(error) => {
            output::complain(&error);
            ExitStatus::Failure.into()
        }
    }
}

fn run(flags: &Flags) -> Result<ExitStatus> {
    match &flags.command {
        Command::Check(asked) => commands::check::run(asked, flags.color),
        Command::Trace(asked) => commands::trace::run(asked, flags.color),
        Command::Fix(asked) => commands::fix::run(asked, flags.color),
        Command::Undo(asked) => commands::undo::run(asked, flags.color),
        Command::Verify(asked) => commands::verify::run(asked, flags.color),
        Command::Bench(asked) => commands::bench::run(asked, flags.color),
        Command::Compare(asked) => commands::compare::run(asked, flags.color),
        Command::Demo(asked) => commands::demo::run(asked, flags.color),
        Command::Report(asked) => commands::report::run(asked),
        Command::Loader(asked) => commands::loader::run(asked),
        Command::Index(asked) => commands::index::run(asked, flags.color),
        Command::Run(asked) => commands::run::run(asked),
        Command::Env(asked) => commands::env::run(asked),
        Command::Generate(asked) => commands::generate::run(asked),
    }
}
