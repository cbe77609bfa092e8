//! `becalm trace`: runs a program and prints the file lookups of its loader.
//!
//! [`places`] opens the output files before anything is started;
//! [`observe`](becalm_lib::trace::observe) runs and traces; [`crate::trace::text`] makes the screen.

use anyhow::{Result, bail};
use becalm_host::trace::{Command, Exit, Rest, Supervisor};
use becalm_lib::trace::observe;
use becalm_lib::trace::observe::Observed;

use crate::exit_code::ExitStatus;
use crate::terminal::style::When;
use crate::trace::args::TraceArgs;
use crate::trace::from;
use crate::trace::places::{self, Places};

/// Runs the command and prints the report.
///
/// # Errors
/// Returns an error if the command cannot be started, or if an output cannot be written. An output
/// that cannot be opened is reported before the command runs, a failed write afterwards.
pub(crate) fn run(args: &TraceArgs, color: When) -> Result<ExitStatus> {
    if let Some(log) = &args.from {
        return from::run(args, log, color);
    }
    let [program, words @ ..] = args.command.as_slice() else {
        bail!("trace: no command; becalm trace [OPTIONS] -- CMD [ARGS]...");
    };
    let command = Command::new(program, words.iter().cloned());
    let mut places = Places::open(args, color)?;
    // No thread has been started yet. If no process can be made, there is no supervisor.
    let supervisor = Supervisor::enter().ok();
    let observed = observe::observe(&args.options(), &command, supervisor)?;
    finish(args, observed, &mut places)
}

/// Reports, then serves the processes that the program left.
fn finish(args: &TraceArgs, observed: Observed, places: &mut Places) -> Result<ExitStatus> {
    let Observed { mut report, mut rest, supervisor } = observed;
    // On stdout the object comes last, after all output of the program.
    let wait_first = report.exit.is_none() && places.json_on_stdout();
    if wait_first {
        report.exit = rest.take().and_then(Rest::finish);
    }
    let told = places.tell(args, &report);
    let code = |exit: Option<Exit>| exit.and_then(Exit::code).unwrap_or(0);
    let status = match (rest, report.exit) {
        (Some(rest), None) => code(rest.finish()),
        (Some(rest), exit) => {
            let status = if told.is_ok() { code(exit) } else { ExitStatus::Failure.code() };
            serve(rest, supervisor, status, told.as_ref().err());
            return Ok(ExitStatus::Program(status));
        }
        (None, exit) => {
            // The process ends now; freeing each string of the report would only delay that.
            std::mem::forget(report);
            code(exit)
        }
    };
    told.map(|()| ExitStatus::Program(status))
}

/// Serves processes that have outlived the program: the user gets the prompt back, and the
/// processes are traced to their end.
fn serve(rest: Rest, supervisor: Option<Supervisor>, status: u8, failed: Option<&anyhow::Error>) {
    if let Some(error) = failed {
        crate::terminal::complain(error);
    }
    if let Some(supervisor) = &supervisor {
        places::let_go_of_streams();
        supervisor.release(status);
    }
    // The exit status of the program is already known.
    let _ = rest.finish();
}
