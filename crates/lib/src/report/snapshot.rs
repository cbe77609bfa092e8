//! One program of the page: the predicted search and objects, and the results of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_core::cost::is_of_hwcaps;
use becalm_core::loader::load::{Answer, Load, Role};
use becalm_core::probe::{LoggedProbe, SearchSource};
use becalm_host::bench::{self, Until};
use becalm_host::trace::{Command, Streams, TraceError};
use bstr::{BString, ByteSlice};

use crate::assume::Assumptions;
use crate::check::starts::add_advice;
use crate::check::{Program, by_newer_glibc, start};
use crate::escape::{shown, shown_path};
use crate::first_line::{FirstLine, Indexed};
use crate::launch::in_path;
use crate::report::start::{Answered, Child, Node, Observed, Snapshot, Try};
use crate::report::{Options, Run, record};
use crate::scratch_index::ScratchIndex;
use crate::targets::{self, Target};
use crate::trace;
use crate::trace::observe::watch;
use crate::words::{words, words_of_chain};

/// Whole starts that are timed.
const WHOLE_STARTS: usize = 5;

/// Returns the snapshot of a program, or of a record of its start.
///
/// # Errors
/// Returns an error if the file is neither a program nor a record, or cannot be read.
pub(super) fn of(path: &Path, options: &Options, assumed: &Assumptions) -> Result<Snapshot> {
    if record::is_one(path) {
        return record::snapshot(path);
    }
    let path = in_path(assumed, path);
    let target = target(&path, assumed)?;
    let session = assumed.fs.session();
    // Before the prediction, which reads the same files: the program waits for what is not in memory.
    let mut observed = run(&target.host, options, None);
    // Otherwise it is timed beside its start with an index.
    if let (Some(_), Some(run), Ok(observed)) = (&options.after, &options.run, &mut observed) {
        set_whole(observed, &command(&target.host, run, options, None), run.limit);
    }
    let (mut program, closure) = start(assumed, &session, &target, "not a program of Linux")?;
    program.newer_glibc = by_newer_glibc(assumed, &session, (&program, &closure));
    add_advice(&options.assume, assumed, &session, &target, (&mut program, &closure));
    Ok(predicted(&program, &closure, observed))
}

/// Runs the program once more, with the index that `becalm run` would make, times whole starts of both, and adds the
/// times to the first line of the plain run. `None` if that one had an index already.
pub(super) fn indexed(
    plain: &mut Observed,
    options: &Options,
    assumed: &Assumptions,
) -> Option<Result<Observed, String>> {
    let run = options.run.as_ref()?;
    let program = in_path(assumed, &options.program);
    let own = command(&program, run, options, None);
    let indexed = (!plain.has_index).then(|| by_index(&program, options));
    let (mut indexed, index) = match indexed {
        Some(Ok(indexed)) => indexed,
        other => {
            set_whole(plain, &own, run.limit);
            return other.map(|it| it.map(|(indexed, _)| indexed));
        }
    };
    let with = command(&program, run, options, Some(&index));
    if let Some([before, after]) = whole(&[&own, &with], run.limit) {
        plain.set_whole(before);
        indexed.set_whole(after);
    }
    if let Some(line) = &mut plain.first_line {
        line.indexed = Indexed::Takes(indexed.loader_ns, true);
        line.whole = line.whole.map(|(before, _)| (before, Some(indexed.whole_ns())));
    }
    Some(Ok(indexed))
}

fn by_index(program: &Path, options: &Options) -> Result<(Observed, ScratchIndex), String> {
    let index = ScratchIndex::of(absolute(program).as_os_str());
    let index = index.map_err(|error| words_of_chain(error.as_ref()))?;
    Ok((run(program, options, Some(&index))?, index))
}

/// Runs the program once under the tracer, for the timeline.
fn run(
    program: &Path,
    options: &Options,
    index: Option<&ScratchIndex>,
) -> Result<Observed, String> {
    let assume = &options.assume;
    let Some(run) = &options.run else {
        return Err("the program was not run (--no-run)".to_owned());
    };
    if assume.sysroot.is_some() || assume.loader.is_some() || assume.libc.is_some() {
        return Err("the prediction is for another machine: the program was not run".to_owned());
    }
    let what = trace::options::Options {
        relocations: true,
        until_idle: true,
        timeline: true,
        store: assume.store.clone(),
        ..trace::options::Options::default()
    };
    let not_watched = |why| format!("the run could not be watched: {why}");
    let streams = Streams::nowhere().map_err(|error| not_watched(words(&error)))?;
    let command = command(program, run, options, index);
    let command = Command { streams: Some(streams), ..command };
    // Every exit code is accepted: the report shows how the program ended.
    let report = watch(&what, &command, run.limit).map_err(|error| match error.downcast_ref() {
        Some(TraceError::TooLong { limit, .. }) => {
            let limit = limit.as_secs_f64();
            format!("the program did not end within {limit} s; name arguments with --run")
        }
        _ => not_watched(words_of_chain(error.as_ref())),
    })?;
    record::observed(&report)
}

fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

/// Returns the command of a run, with the index and the assumed variables in its environment.
fn command(program: &Path, run: &Run, options: &Options, index: Option<&ScratchIndex>) -> Command {
    let own = || std::env::vars_os().collect();
    let mut environment: Vec<_> = index.map_or_else(own, ScratchIndex::environment);
    let assume = &options.assume;
    for (name, value) in [
        ("LD_LIBRARY_PATH", &assume.library_path),
        ("LD_PRELOAD", &assume.preload),
        ("LD_AUDIT", &assume.audit),
    ] {
        if let Some(value) = value {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.clone()));
        }
    }
    let program = absolute(program);
    Command { env: Some(environment), ..Command::new(program, run.args.clone()) }
}

/// Returns the times of whole starts of each command: the medians of a few that are not traced, in turns, so that
/// what slows the machine down slows them all.
fn whole<const N: usize>(commands: &[&Command; N], limit: Duration) -> Option<[u64; N]> {
    let options = bench::Options {
        until: Until::Idle,
        timeout: limit,
        accept_failure: true,
        ..bench::Options::default()
    };
    let mut times = [[0; WHOLE_STARTS]; N];
    for round in 0..WHOLE_STARTS {
        for (command, times) in commands.iter().zip(&mut times) {
            times[round] = bench::once(command, &options).ok()?.wall_ns;
        }
    }
    Some(times.map(|mut times| {
        times.sort_unstable();
        times[WHOLE_STARTS / 2]
    }))
}

fn set_whole(observed: &mut Observed, command: &Command, limit: Duration) {
    whole(&[command], limit).into_iter().for_each(|[ns]| observed.set_whole(ns));
}

fn target(path: &PathBuf, assumed: &Assumptions) -> Result<Target> {
    let mut targets = targets::find(assumed, std::slice::from_ref(path));
    if let Some(problem) = targets.problems.pop() {
        return Err(problem.into());
    }
    match targets.files.pop() {
        Some(target) if target.named && targets.files.is_empty() => Ok(target),
        _ => bail!("{}: a directory, not a program", shown_path(path)),
    }
}

/// Builds the snapshot from the model's prediction and the results of a run.
fn predicted(program: &Program, closure: &Closure, observed: Result<Observed, String>) -> Snapshot {
    let load = &closure.load;
    let text = |path: &BString| shown(path.as_bstr());
    let libc = program.libc.map(|libc| libc.to_string());
    let interpreter = program.interpreter.as_ref().map(text);
    let unresolved = closure.unresolved().into_iter();
    let unresolved = unresolved.map(|needed| format!("{}: nothing answers", shown(needed)));
    let stop = program.stop.as_ref().map(|stop| format!("the loader gives up at {stop}"));
    let is_unlike = observed.as_ref().is_ok_and(|it| it.as_predicted == Some(false));
    let unlike = "the run did not go as predicted; see the timeline";
    let unlike = is_unlike.then(|| unlike.to_owned());
    let newer = program.newer_glibc.map(|it| (it.libc.to_string(), it.storm.misses()));
    Snapshot {
        path: text(&program.path),
        first_line: Some(FirstLine::of(program)),
        about: [Some(program.machine.to_owned()), libc.clone(), interpreter]
            .into_iter()
            .flatten()
            .collect(),
        storm: program.storm,
        libc,
        newer_glibc: newer,
        advice: program.advice.clone(),
        is_record: false,
        faults: unresolved.chain(stop).chain(unlike).collect(),
        tries: load.probes.iter().map(|probe| a_try(load, probe)).collect(),
        nodes: nodes(load),
        observed,
    }
}

fn a_try(load: &Load, probe: &LoggedProbe) -> Try {
    let resolution = &load.resolutions[probe.resolution];
    let is_searched = !matches!(probe.source, SearchSource::Direct | SearchSource::LoaderCache);
    let dir = match probe.dir() {
        dir if dir.is_empty() => BString::from("."),
        dir => dir.to_owned(),
    };
    Try {
        needed_by: load.objects[resolution.needed_by].path.clone(),
        needed: resolution.needed.clone(),
        dir: is_searched.then_some(dir),
        source: probe.source,
        call: probe.call,
        outcome: probe.outcome,
        of_hwcaps: is_of_hwcaps(probe),
    }
}

fn nodes(load: &Load) -> Vec<Node> {
    let mut misses = vec![0; load.resolutions.len()];
    for probe in load.probes.iter().filter(|probe| probe.outcome.is_failed_call()) {
        misses[probe.resolution] += 1;
    }
    let mut nodes: Vec<Node> = load
        .objects
        .iter()
        .map(|object| Node { path: object.path.clone(), children: Vec::new() })
        .collect();
    for (resolution, misses) in load.resolutions.iter().zip(misses) {
        let answer = match resolution.answer {
            // The kernel maps the loader of a program before any lookup.
            Answer::Loaded(object, _) if load.objects[object].role == Role::Loader => {
                Answered::Before(object)
            }
            Answer::Loaded(object, source) => Answered::Loaded(object, source),
            Answer::AlreadyLoaded(object) | Answer::SameFile(object, _) => Answered::Before(object),
            Answer::Vdso | Answer::Skipped => Answered::None,
            Answer::Missing | Answer::Refused(_) if resolution.is_unresolved() => Answered::Missing,
            Answer::Missing | Answer::Refused(_) => Answered::None,
        };
        let child = Child { needed: resolution.needed.clone(), answer, misses };
        nodes[resolution.needed_by].children.push(child);
    }
    nodes
}
