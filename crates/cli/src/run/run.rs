//! `becalm run`: runs one program, and the programs that it starts, with an index.
//!
//! [`becalm_lib::run`] finds the index, then becalm executes the program in its own process. If
//! anything fails, the program still starts.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Error, Result, anyhow, bail};
use becalm_host::inherited;
use becalm_lib::ahead;
use becalm_lib::pages;
use becalm_lib::path::path_bytes;
use becalm_lib::quick;
use becalm_lib::run::{Launch, Options, prepare, program};
use becalm_lib::trees::{self, begin::Offer};
use becalm_lib::words::words;

use crate::exit_code::ExitStatus;
use crate::run::args::RunArgs;
use crate::run::{warm, with_pack};
use crate::terminal;

/// Executes the program; returns only if that fails, with the status that shells use for it.
///
/// # Errors
/// Returns an error if there is no command or, with `--strict`, if it cannot use an index.
pub(crate) fn run(args: &RunArgs) -> Result<ExitStatus> {
    if args.warm {
        return warm::run(&args.command, args.json);
    }
    let [name, arguments @ ..] = args.command.as_slice() else {
        bail!("run: no command; becalm run [OPTIONS] -- CMD [ARGS]...");
    };
    if let Some(pid) = args.attend {
        ahead::begin::attend(pid, name.as_ref());
        return Ok(ExitStatus::Fine);
    }
    if let Some(folder) = &args.make_pages {
        pages::make::for_switched_on(folder, name.as_ref());
        return Ok(ExitStatus::Fine);
    }
    if args.pack.is_some() {
        inherited::survive_size_limit();
    }
    let pack = with_pack::unpacked(args)?;
    let start = match with_pack::start(args, name, pack) {
        Ok(start) => start,
        Err(error) => return Ok(not_started(&error, io::ErrorKind::NotFound)),
    };
    let interpreter = with_pack::interpreter(&start);
    let with_pack::Start { path, found, pack, is_told, is_silent } = start;
    // Before anything else is read.
    let learn = if args.no_ahead || is_told || is_silent {
        None
    } else {
        ahead::begin::begin(&path, found_cold())
    };
    let offer = if args.no_ahead || args.no_bind || is_silent {
        None
    } else {
        trees::begin::begin(&path, arguments, pack)
    };
    // `env` itself would start by the index, and take what is meant for the program.
    let (found, called) = match interpreter {
        Some((place, called)) => (program::Found::unopened(place), called),
        None => program::behind_env(found),
    };
    let mut command = Command::new(&found.path);
    command.arg0(called.first().unwrap_or(name)).args(called.iter().skip(1));
    command.args(called.first().map(|_| &path)).args(arguments);
    let mut variables = Vec::new();
    let told = offer.as_ref().map(|it| it.programs.clone());
    let packed = pack.and_then(|pack| pack.index(&path));
    let options = Options { told, wait: is_told, packed, ..args.options() };
    match prepare(&options, found) {
        Ok(Launch::Indexed(indexed)) => {
            let is_plain =
                args.is_plain() && called.is_empty() && learn.is_none() && offer.is_none();
            if is_plain {
                quick::remember(&path, &indexed);
            }
            let pages = args.share_pages.then(|| pages::begin(&indexed)).flatten();
            let switches: Vec<String> =
                learn.into_iter().chain(offer.and_then(Offer::accept)).chain(pages).collect();
            variables = indexed.variables(args.no_bind, &switches, args.only);
            // execve closes the descriptor without a call of its own.
            std::mem::forget(indexed);
        }
        Ok(Launch::Secure) if !args.quiet => {
            let why = "starts in secure-execution mode: its loader ignores LD_AUDIT; started \
             without an index";
            terminal::note(path_bytes(&path).as_ref(), why);
        }
        Ok(Launch::BeingMade) if !args.quiet && io::stderr().is_terminal() => {
            terminal::note(path_bytes(&path).as_ref(), BEING_MADE);
        }
        Ok(Launch::Plain | Launch::BeingMade | Launch::Secure) => {}
        Err(error) if args.strict => return Err(error),
        // The start fails as well, with its own message.
        Err(_) if args.quiet || (!is_told && path.symlink_metadata().is_err()) => {}
        Err(error) => terminal::complain(&error.context("started without an index")),
    }
    let set = variables.iter().filter_map(|it| Some((OsStr::new(it.name), it.value.as_deref()?)));
    let error = inherited::execute(command, set);
    Ok(not_started(&anyhow!("{}: {}", path.display(), words(&error)), error.kind()))
}

/// True if `starter/quick.c` has found a page of this start that was not in memory.
fn found_cold() -> bool {
    #[cfg(quick)]
    #[allow(unsafe_code, reason = "set before this process had a C library")]
    {
        unsafe extern "C" {
            static becalm_found_cold: u8;
        }
        // SAFETY: nothing writes it after `main` has begun.
        unsafe { becalm_found_cold != 0 }
    }
    #[cfg(not(quick))]
    false
}

/// The line that a first start prints at a terminal.
const BEING_MADE: &str = "started without an index; one is being made for its next start";

/// Reports that the program was not started. Returns 127 if it was not found, else 126 (POSIX
/// 2.8.2 of the shell).
fn not_started(error: &Error, kind: io::ErrorKind) -> ExitStatus {
    terminal::complain(error);
    ExitStatus::Program(if kind == io::ErrorKind::NotFound { 127 } else { 126 })
}
