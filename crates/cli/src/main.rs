//! becalm: predicts, without running anything, every probe of the dynamic loader.
//!
//! Each command is a folder: `args` and `manual` are its arguments and their help, `run` does the
//! work with `becalm-lib`, `becalm-host` and `becalm-core`, `text`, `json`, `csv`, `markdown` and
//! `html` print the result. [`args`] joins the commands' arguments, [`terminal`] has the code that
//! all outputs share.

pub(crate) mod advise;
pub(crate) mod args;
pub(crate) mod bench;
pub(crate) mod beside;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod common_args;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod elf;
pub(crate) mod env;
pub(crate) mod exit_code;
pub(crate) mod fix;
pub(crate) mod generate;
pub(crate) mod index;
pub(crate) mod jobs;
pub(crate) mod loader;
pub(crate) mod on;
pub(crate) mod overview;
pub(crate) mod pack;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod terminal;
pub(crate) mod trace;
pub(crate) mod undo;
pub(crate) mod verify;

use std::process::ExitCode;

use anyhow::Result;
use becalm_host::inherited::survive_size_limit;

use crate::args::{Cli, Command};
use crate::exit_code::ExitStatus;

fn main() -> ExitCode {
    let status = match std::env::args_os().len() {
        0 | 1 => overview::run(),
        _ => dispatch(&args::parse()),
    };
    let status = status.unwrap_or_else(|error| match terminal::is_broken_pipe(&error) {
        true => ExitStatus::BROKEN_PIPE,
        false => {
            terminal::complain(&error);
            ExitStatus::Failure
        }
    });
    status.code().into()
}

fn dispatch(flags: &Cli) -> Result<ExitStatus> {
    if !matches!(flags.command, Command::Run(_)) {
        survive_size_limit();
    }
    match &flags.command {
        Command::Check(args) => check::run::run(args, flags.color),
        Command::Advise(args) => advise::run::run(args, flags.color),
        Command::Doctor(args) => doctor::run::run(args, flags.color),
        Command::Cache(args) => cache::run::run(args, flags.color),
        Command::Pack(args) => pack::run::pack(args, flags.color),
        Command::Unpack(args) => pack::run::unpack(args, flags.color),
        Command::Trace(args) => trace::run::run(args, flags.color),
        Command::Fix(args) => fix::run::run(args, flags.color),
        Command::Undo(args) => undo::run::run(args, flags.color),
        Command::Verify(args) => verify::run::run(args, flags.color),
        Command::Bench(args) => bench::run::run(args, flags.color),
        Command::Demo(args) => demo::run::run(args, flags.color),
        Command::Elf(args) => elf::run::run(args),
        Command::Report(args) => report::run::run(args),
        Command::Loader(args) => loader::run::run(args),
        Command::Index(args) => index::run::run(args, flags.color),
        Command::Run(args) => run::run::run(args),
        Command::On(args) => on::run::on(args),
        Command::Off(args) => on::run::off(args),
        Command::Env(args) => env::run::run(args),
        Command::Generate(args) => generate::run::run(args, args::definition(), args::manual_of),
    }
}
