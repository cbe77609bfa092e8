//! `becalm trace`: runs a program and reports what its loader tried.
//!
//! The host traces, or [`untraced`] does what can be done without; [`predict`] asks the model
//! meanwhile, and [`join`] puts observation and prediction together.

use becalm_host::trace::{self, Command, Rest, Supervisor, TraceError, Traced};

use crate::trace::options::Options;
use crate::trace::predict::{Assumed, Predictor};
use crate::trace::refused::ObserveError;
use crate::trace::report::Report;
use crate::trace::{foreign, join, notes, untraced};

/// A run that was watched.
#[derive(Debug)]
pub struct Observed {
    /// The observations.
    pub report: Report,
    /// The rest of the program: it runs on, or processes that it started do. They are served while
    /// this lives.
    pub rest: Option<Rest>,
    /// The supervisor, where the tracer has one.
    pub supervisor: Option<Supervisor>,
}

/// Runs the command and watches it. To be called before the process starts a thread; `supervisor`
/// is the process that stands before the tracer, where one could be made.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub fn observe(
    options: &Options,
    supervisor: Option<Supervisor>,
) -> Result<Observed, ObserveError> {
    let [program, program_args @ ..] = options.command.as_slice() else {
        return Err(ObserveError::NoCommand);
    };
    let command = Command::new(program, program_args.to_vec());
    if let Some(why) = foreign::why_untraced(&command) {
        return without_tracer(options, &command, &why);
    }
    let assumed = Assumed::new(options);
    let mut predictor = Predictor::start(&assumed);
    let watched = trace::Options {
        follow: options.follow,
        all_syscalls: options.all_syscalls,
        until_entry: options.until_entry,
        supervisor,
        ..trace::Options::default()
    };
    match trace::run_with(&command, watched, &mut predictor) {
        Ok(traced) => Ok(joined(options, &assumed, traced, predictor)),
        Err(TraceError::NotPermitted { source, .. }) => {
            let why = format!("tracing is not permitted here ({})", crate::words::words(&source));
            without_tracer(options, &command, &why)
        }
        Err(TraceError::Architecture { .. }) => {
            without_tracer(options, &command, "there is no tracer for this architecture")
        }
        Err(error) => Err(error.into()),
    }
}

fn joined(options: &Options, assumed: &Assumed, traced: Traced, predictor: Predictor) -> Observed {
    let Traced { images, exit, overhead, notes, rest, supervisor } = traced;
    let report = Report {
        command: options.command.clone(),
        images: join::images(images, predictor.answers(), assumed),
        exit,
        overhead: Some(overhead),
        notes: notes::in_words(&notes, rest.is_some()),
        all_syscalls: options.all_syscalls,
        opens_alone: false,
    };
    Observed { report, rest, supervisor }
}

/// Without a tracer: the program runs, and its loader tells its opens.
fn without_tracer(
    options: &Options,
    command: &Command,
    why: &str,
) -> Result<Observed, ObserveError> {
    let ran = trace::run_untraced(command)?;
    let report = untraced::report(options, ran, why);
    Ok(Observed { report, rest: None, supervisor: None })
}
