//! `becalm trace`: runs a program and tells what its loader tried.
//!
//! [`places`] opens what is written to, before anything is started; the host traces, or
//! [`untraced`] does what can be done without; [`predict`] asks the model meanwhile, and
//! [`join`] puts observation and prediction together; [`crate::trace::output`] tells it.

use std::ffi::OsString;

use anyhow::{Result, bail};
use becalm_core::cost::{Offenders, Storm};
use becalm_core::observe::Dlopens;
use becalm_core::probe::Probe;
use becalm_host::trace::{
    self, Calibration, Command, Exit, Image, Options, Rest, Supervisor, TraceError, Traced,
};
use becalm_lib::beside::Beside;
use becalm_lib::check::Program;
use bstr::BString;

use crate::common_args::Until;
use crate::exit_code::ExitStatus;
use crate::terminal::style::When;
use crate::trace::args::TraceArgs;
use crate::trace::places::{self, Places};
use crate::trace::predict::{Assumed, Predictor};
use crate::trace::{foreign, from, join, notes, refused, untraced};

/// All that is told of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// The command line.
    pub command: Vec<OsString>,
    /// The images, the program last.
    pub images: Vec<Seen>,
    /// How the program ended; [`Exit::Running`] where it is no longer watched.
    pub exit: Exit,
    /// What watching costs here; `None` where nothing was watched.
    pub overhead: Option<Calibration>,
    /// What a reader should know, a sentence each.
    pub notes: Vec<String>,
    /// True where every system call was counted.
    pub all_syscalls: bool,
    /// True where opens alone were seen: the program ran untraced.
    pub opens_alone: bool,
}

/// One image, with what the model says of it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What was observed.
    pub image: Image,
    /// The program's path: as it was asked for, where that is the program itself.
    pub path: BString,
    /// What `becalm check` says of it, or why it says nothing.
    pub program: Result<Program, String>,
    /// The loader's probes, attributed.
    pub probes: Vec<Probe>,
    /// Their counts.
    pub storm: Storm,
    /// Time of its misses in nanoseconds, the tracer's own cost subtracted.
    pub storm_ns: u64,
    /// Whom the misses are charged to.
    pub worst: Offenders,
    /// What the loader searched after the entry point.
    pub dlopens: Dlopens,
    /// Prediction beside observation, where there is a prediction.
    pub beside: Option<Beside>,
}

/// Runs the command and tells what was seen.
///
/// # Errors
/// Where the command cannot be started, or what is to be written cannot be: the first
/// before, the second after it has run.
pub(crate) fn run(args: &TraceArgs, color: When) -> Result<ExitStatus> {
    if let Some(log) = &args.from {
        return from::run(args, log, color);
    }
    let [program, program_args @ ..] = args.command.as_slice() else {
        bail!("trace: no command; becalm trace [OPTIONS] -- CMD [ARGS]...");
    };
    let mut places = Places::open(args, color)?;
    // No thread has been started yet. Where no process can be made, there is no front.
    let supervisor = Supervisor::enter().ok();
    let command = Command::new(program, program_args.to_vec());
    if let Some(why) = foreign::why_untraced(&command) {
        return untraced(args, &command, &why, &mut places);
    }
    let mut predictor = Predictor::start(&Assumed::new(args));
    match trace::run_with(&command, options(args, supervisor), &mut predictor) {
        Ok(traced) => finish(args, traced, predictor, &mut places),
        Err(TraceError::NotPermitted { source, .. }) => {
            let why =
                format!("tracing is not permitted here ({})", becalm_lib::words::words(&source));
            untraced(args, &command, &why, &mut places)
        }
        Err(TraceError::Architecture { .. }) => {
            untraced(args, &command, "there is no tracer for this architecture", &mut places)
        }
        Err(error) => Err(refused::in_words(error)),
    }
}

fn options(args: &TraceArgs, supervisor: Option<Supervisor>) -> Options {
    Options {
        follow: args.follow,
        all_syscalls: args.syscalls,
        until_entry: args.until == Until::Entry,
        supervisor,
        ..Options::default()
    }
}

/// Reports, then looks after what is left of the program.
fn finish(
    args: &TraceArgs,
    traced: Traced,
    predictor: Predictor,
    places: &mut Places,
) -> Result<ExitStatus> {
    let Traced { images, exit, overhead, notes, rest, supervisor } = traced;
    let mut report = Report {
        command: args.command.clone(),
        images: join::images(images, predictor.answers(), &Assumed::new(args)),
        exit,
        overhead: Some(overhead),
        notes: notes::in_words(&notes, rest.is_some()),
        all_syscalls: args.syscalls,
        opens_alone: false,
    };
    let mut rest = rest;
    // On stdout the object comes last, whatever the program still writes there.
    let wait_first = exit == Exit::Running && places.json_on_stdout();
    if wait_first {
        report.exit = rest.take().and_then(Rest::finish).unwrap_or(exit);
    }
    let told = places.tell(args, &report);
    let code = |exit: Exit| exit.code().unwrap_or(0);
    let status = match (rest, report.exit) {
        (Some(rest), Exit::Running) => code(rest.finish().unwrap_or(Exit::Running)),
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

/// Processes have outlived the program: the user gets the prompt back, and they get
/// their answers.
fn serve(rest: Rest, supervisor: Option<Supervisor>, status: u8, failed: Option<&anyhow::Error>) {
    if let Some(error) = failed {
        crate::terminal::complain(error);
    }
    if let Some(supervisor) = &supervisor {
        places::let_go_of_streams();
        supervisor.release(status);
    }
    // How the program ended is known.
    let _ = rest.finish();
}

/// Without a tracer: the program runs, and its loader tells its opens.
fn untraced(
    args: &TraceArgs,
    command: &Command,
    why: &str,
    places: &mut Places,
) -> Result<ExitStatus> {
    let ran = trace::run_untraced(command).map_err(refused::in_words)?;
    let exit = ran.exit;
    let report = untraced::report(args, ran, why);
    places.tell(args, &report)?;
    Ok(ExitStatus::Program(exit.code().unwrap_or(0)))
}

impl Seen {
    /// An image of which nothing is predicted.
    pub(crate) fn unpredicted(image: Image, path: BString, why: String) -> Self {
        let probes = join::raw_probes(&image.lookups);
        Seen {
            storm: join::raw_storm(&probes),
            storm_ns: join::storm_ns(&image),
            worst: join::raw_offenders(&probes),
            dlopens: join::dlopens(&image, None),
            image,
            path,
            program: Err(why),
            probes,
            beside: None,
        }
    }
}
