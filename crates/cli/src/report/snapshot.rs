//! One program of the page: what its loader would try and load, and what a run of it
//! showed.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_core::cost::is_of_hwcaps;
use becalm_core::loader::load::{Answer, Load, Role};
use becalm_core::probe::{LoggedProbe, SearchSource};
use becalm_host::trace::Command;
use becalm_lib::advice::Advice;
use becalm_lib::assume::Assumptions;
use becalm_lib::check::{Program, Verdict, by_newer_glibc, check};
use becalm_lib::escape::shown;
use becalm_lib::targets;
use becalm_lib::targets::Target;
use bstr::{BString, ByteSlice};

use crate::report::args::ReportArgs;
use crate::report::name::name;
use crate::report::start::{Answered, Child, Node, Observed, Snapshot, Try};
use crate::report::{observe, record};

/// Returns the snapshot of a program, or of a record of its start.
///
/// # Errors
/// Returns an error if the file is neither, or cannot be read.
pub(crate) fn of(path: &Path, args: &ReportArgs, assumed: &Assumptions) -> Result<Snapshot> {
    if record::is_one(path) {
        return record::snapshot(path);
    }
    let path = found(path, args);
    let target = target(&path, assumed)?;
    let session = assumed.fs.session();
    match check(assumed, &session, &target) {
        (Verdict::Checked(mut program), Some(closure)) => {
            program.newer_glibc = by_newer_glibc(assumed, &session, (&program, &closure));
            if program.calmed_by.is_none() {
                program.advice = Advice::of(&args.assume.options(), assumed, &target, &closure);
            }
            let mut snapshot = Snapshot::predicted(&program, &closure);
            snapshot.observed = observe::run(&target.host, args);
            if let Ok(observed) = &snapshot.observed
                && observed.as_predicted == Some(false)
            {
                snapshot
                    .faults
                    .push("the run did not go as predicted; see the timeline".to_owned());
            }
            Ok(snapshot)
        }
        (Verdict::Problem(problem), _) => {
            bail!("{}: {}", shown(problem.path.as_bstr()), problem.reason)
        }
        _ => bail!("{}: not a program of Linux", name(&path)),
    }
}

/// The path itself, or what `PATH` has of that name.
fn found(path: &Path, args: &ReportArgs) -> PathBuf {
    let is_name = path.components().count() == 1 && !path.exists();
    if is_name && args.assume.sysroot.is_none() {
        return Command::new(path, []).file().unwrap_or_else(|_| path.to_owned());
    }
    path.to_owned()
}

fn target(path: &PathBuf, assumed: &Assumptions) -> Result<Target> {
    let mut targets = targets::find(assumed, std::slice::from_ref(path));
    if let Some(problem) = targets.problems.first() {
        bail!("{}: {}", shown(problem.path.as_bstr()), problem.reason);
    }
    match targets.files.pop() {
        Some(target) if target.named && targets.files.is_empty() => Ok(target),
        _ => bail!("{}: a directory, not a program", name(path)),
    }
}

impl Snapshot {
    /// Builds the snapshot from the model's prediction.
    fn predicted(program: &Program, closure: &Closure) -> Self {
        let load = &closure.load;
        let text = |path: &BString| shown(path.as_bstr());
        let mut about = vec![program.machine.to_owned()];
        about.extend(program.libc.map(|libc| libc.to_string()));
        about.extend(program.interpreter.as_ref().map(text));
        let mut faults: Vec<String> = closure
            .unresolved()
            .iter()
            .map(|needed| format!("{}: nothing answers", shown(needed)))
            .collect();
        faults.extend(program.stop.as_ref().map(|stop| format!("the loader gives up at {stop}")));
        Self {
            path: text(&program.path),
            about,
            storm: program.storm,
            libc: program.libc.map(|libc| libc.to_string()),
            newer_glibc: program
                .newer_glibc
                .map(|newer| (newer.libc.to_string(), newer.storm.misses())),
            advice: program.advice.clone(),
            is_record: false,
            faults,
            tries: load.probes.iter().map(|probe| a_try(load, &probe)).collect(),
            nodes: nodes(load),
            observed: Ok(Observed::default()),
        }
    }
}

fn a_try(load: &Load, probe: &LoggedProbe<'_>) -> Try {
    let resolution = &load.resolutions[probe.resolution];
    let is_searched = !matches!(probe.source, SearchSource::Direct | SearchSource::LoaderCache);
    let dir = match probe.dir {
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
            // The kernel maps it for a program before anything is asked for.
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
