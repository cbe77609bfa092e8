//! `becalm trace`: runs a program and reports its loader's lookups.
//!
//! The host traces, or [`untraced`] collects what is possible without tracing; [`predict`] runs the
//! model meanwhile, and [`join`] combines observation and prediction.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use becalm_host::trace::{self, Command, Rest, Supervisor, TraceError, Traced};

use crate::ahead::learn;
use crate::here;
use crate::path::path_of;
use crate::relocations::{self, Relocations};
use crate::trace::options::Options;
use crate::trace::predict::Predictor;
use crate::trace::refused::{explained, why_untraced};
use crate::trace::report::{Report, words_of_command};
use crate::trace::{join, notes, untraced};
use crate::words::{counted, words_of_chain};

/// The longest that a start takes to its entry point, if the caller has no limit.
const LIMIT: Duration = Duration::from_secs(60);

/// A traced run.
#[derive(Debug)]
pub struct Observed {
    /// The observations.
    pub report: Report,
    /// The program or processes that it started, if they are still running. They are served until
    /// this is dropped.
    pub rest: Option<Rest>,
    /// The supervisor process, if there is one.
    pub supervisor: Option<Supervisor>,
}

/// Runs the command and traces it. Call it before the process starts a thread; `supervisor` is the
/// process before the tracer, if one could be made.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub fn observe(
    options: &Options,
    command: &Command,
    supervisor: Option<Supervisor>,
) -> Result<Observed> {
    run(options, command, supervisor, None)
}

/// Runs the command to its end, traced from a thread of this process. At the limit the program and its processes
/// are killed; processes that outlive the program are killed with its end.
///
/// # Errors
/// Returns an error if the command cannot be started, or does not end within the limit.
pub fn watch(options: &Options, command: &Command, limit: Duration) -> Result<Report> {
    let watched = || run(options, command, None, Some(limit)).map(|seen| seen.report);
    // The tracer binds its own thread to the program's processor.
    let done = thread::scope(|scope| scope.spawn(watched).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run(
    options: &Options,
    command: &Command,
    supervisor: Option<Supervisor>,
    limit: Option<Duration>,
) -> Result<Observed> {
    if let Some(why) = why_untraced(command) {
        return without_tracer(options, command, limit, &why);
    }
    let predictor = Predictor::start(options);
    let watched = trace::Options {
        follow: options.follow,
        all_syscalls: options.all_syscalls,
        until_entry: options.until_entry,
        until_idle: options.until_idle,
        opened: options.record || options.files,
        timeline: options.timeline,
        pages: true,
        cold: options.cold,
        supervisor,
        limit,
    };
    match trace::run(command, watched, &mut |at, image| predictor.entered(at, image)) {
        Ok(traced) => {
            let recorded = options.record.then(|| record(command, &traced));
            let mut observed = joined(options, command, traced, predictor);
            // Measured last: these starts bring into memory what the traced one may have to wait for.
            let relocations =
                options.relocations.then(|| relocations::measure(command, limit.unwrap_or(LIMIT)));
            add_relocations(&mut observed.report, relocations.flatten());
            observed.report.notes.extend(recorded);
            Ok(observed)
        }
        Err(TraceError::NotPermitted { source, .. }) => {
            let why = format!("tracing is not permitted here ({})", crate::words::words(&source));
            without_tracer(options, command, limit, &why)
        }
        Err(error) => Err(explained(error)),
    }
}

/// Records the files that the program has opened, and returns a note about it.
fn record(command: &Command, traced: &Traced) -> String {
    let opened = traced.images.iter().flat_map(|image| &image.opened);
    match learn::opened(&command.program, opened.map(|path| path_of(path.as_ref()))) {
        Ok(files) => {
            format!("{} to be read ahead by becalm run", counted(files as u64, "file", "files"))
        }
        Err(error) => format!("no file is read ahead: {}", words_of_chain(error.as_ref())),
    }
}

fn joined(options: &Options, command: &Command, traced: Traced, predictor: Predictor) -> Observed {
    let Traced { images, exit, overhead, notes, rest, supervisor, .. } = traced;
    let report = Report {
        made: images.last().map(|image| here::line(&path_of(image.path.as_ref()))),
        command: words_of_command(command),
        images: join::images(images, predictor.answers(), options),
        is_idle: exit == trace::Exit::Idle,
        exit: exit.code().map(|_| exit),
        overhead: Some(overhead),
        notes: notes::in_words(&notes, rest.is_some()),
        all_syscalls: options.all_syscalls,
        opens_alone: false,
    };
    Observed { report, rest, supervisor }
}

/// The relocation is that of the first program that the command executed.
fn add_relocations(report: &mut Report, relocations: Option<Relocations>) {
    let Some(pid) = report.images.last().map(|program| program.pid) else { return };
    let first = report.images.iter_mut().find(|image| image.pid == pid && !image.forked);
    first.into_iter().for_each(|image| image.relocations.clone_from(&relocations));
}

/// Runs the program without a tracer; its loader reports its opens.
fn without_tracer(
    options: &Options,
    command: &Command,
    limit: Option<Duration>,
    why: &str,
) -> Result<Observed> {
    let ran = trace::run_untraced(command, limit).map_err(explained)?;
    let report = untraced::report(options, command, ran, why);
    Ok(Observed { report, rest: None, supervisor: None })
}
