//! One run for the timeline: `becalm trace` as a process of its own, so that a program
//! that never ends, or that takes the tracer down with it, leaves the page to be made.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use becalm_host::child;
use becalm_lib::escape::shown;
use becalm_lib::words::words;
use bstr::ByteSlice;

use crate::bench::variants::arguments;
use crate::report::args::ReportArgs;
use crate::report::record;
use crate::report::start::Observed;

/// Runs the program and tells what was seen, or why nothing was.
pub(crate) fn run(program: &Path, args: &ReportArgs) -> Result<Observed, String> {
    if args.no_run {
        return Err("the program was not run (--no-run)".to_owned());
    }
    let assume = &args.assume;
    if assume.sysroot.is_some() || assume.loader.is_some() || assume.libc.is_some() {
        return Err("the prediction is for another machine: the program was not run".to_owned());
    }
    let place = tempfile::NamedTempFile::new()
        .map_err(|error| format!("no place for a record: {}", words(&error)))?;
    let mut said = tempfile::tempfile().map_err(|error| words(&error))?;
    let mut command = command(program, args, place.path())?;
    command.stderr(said.try_clone().map_err(|error| words(&error))?);
    let mut child = command.spawn().map_err(|error| words(&error))?;
    // Whatever the program's exit code: the record says how it ended.
    let ended = child::status_within(&mut child, args.timeout).map_err(|error| words(&error))?;
    if ended.is_none() {
        let limit = args.timeout.as_secs_f64();
        return Err(format!("the program did not end within {limit} s; name arguments with --run"));
    }
    record::observed(place.path()).map_err(|_| {
        let why = child::last_line(&mut said);
        let why = why.map_or_else(|| "it left no record".to_owned(), |line| shown(line.as_bstr()));
        format!("the run could not be watched: {why}")
    })
}

/// `becalm trace` of the program, under what is assumed of its environment.
fn command(program: &Path, args: &ReportArgs, record: &Path) -> Result<Command, String> {
    let assume = &args.assume;
    let program_args =
        arguments(args.run.as_deref(), &args.args).map_err(|error| error.to_string())?;
    let becalm = env::current_exe().map_err(|error| words(&error))?;
    let mut command = Command::new(becalm);
    command.args(["trace", "--json", "-o"]).arg(record);
    command.arg("--store").arg(&assume.store.store);
    command.arg("--").arg(absolute(program)).args(&program_args);
    for (name, value) in [
        ("LD_LIBRARY_PATH", &assume.library_path),
        ("LD_PRELOAD", &assume.preload),
        ("LD_AUDIT", &assume.audit),
    ] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}
