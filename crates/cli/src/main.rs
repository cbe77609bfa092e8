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
use crate::flags::{Cli, Command};

fn main() -> ExitCode {
    let flags = flags::parse();
    match dispatch(&flags) {
        Ok(status) => status.into(),
        Err(error) if output::is_broken_pipe(&error) => ExitStatus::BROKEN_PIPE.into(),
        Err(error) => {
            output::complain(&error);
            ExitStatus::Failure.into()
        }
    }
}

fn dispatch(flags: &Cli) -> Result<ExitStatus> {
    match &flags.command {
        Command::Check(args) => commands::check::run(args, flags.color),
        Command::Trace(args) => commands::trace::run(args, flags.color),
        Command::Fix(args) => commands::fix::run(args, flags.color),
        Command::Undo(args) => commands::undo::run(args, flags.color),
        Command::Verify(args) => commands::verify::run(args, flags.color),
        Command::Bench(args) => commands::bench::run(args, flags.color),
        Command::Compare(args) => commands::compare::run(args, flags.color),
        Command::Demo(args) => commands::demo::run(args, flags.color),
        Command::Report(args) => commands::report::run(args),
        Command::Loader(args) => commands::loader::run(args),
        Command::Index(args) => commands::index::run(args, flags.color),
        Command::Run(args) => commands::run::run(args),
        Command::Env(args) => commands::env::run(args),
        Command::Generate(args) => commands::generate::run(args),
    }
}
