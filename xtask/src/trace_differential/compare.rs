//! Compares `becalm trace` of one program with `strace` and `becalm check`, and the program's
//! output with its untraced output.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::cost::SearchCost;
use becalm_core::probe::{Attempt, Outcome, Probe};
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, Start};
use becalm_testing::strace::{CallResult, Syscall, TRACED_CALLS, attempts, parse, strace};
use bstr::BStr;
use serde::Deserialize;

use super::choose::Trial;
use super::run::{Ran, Runner, open_folder, start};

/// The result of a trial.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) probes: usize,
    pub(super) misses: usize,
    pub(super) wrong: Vec<Wrong>,
}

/// An error, or a reason why a trial proves nothing.
pub(super) enum Wrong {
    /// strace recorded something else.
    Strace(String),
    /// The prediction differs.
    Prediction(String),
    /// The program behaves differently.
    Output(String),
    /// The program's output varies untraced as well.
    Varies(String),
    /// The program does not end by itself.
    NoEnd(String),
    /// The program could not be run, or its report could not be read.
    NotRun(String),
}

impl Wrong {
    /// Returns true if the error is not becalm's.
    pub(super) fn is_excused(&self) -> bool {
        matches!(self, Wrong::Varies(_) | Wrong::NoEnd(_))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Strace(what) => write!(f, "strace: {what}"),
            Wrong::Prediction(what) => write!(f, "prediction: {what}"),
            Wrong::Output(what) => write!(f, "output: {what}"),
            Wrong::Varies(what) => write!(f, "varies by itself: {what}"),
            Wrong::NoEnd(what) => write!(f, "no end: {what}"),
            Wrong::NotRun(what) => write!(f, "not run: {what}"),
        }
    }
}

#[derive(Deserialize)]
struct Traced {
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    path: String,
    storm: SearchCost,
    probes: Vec<Probe>,
    initialisers: usize,
}

impl Image {
    fn steps(&self) -> Vec<Step> {
        let step = |probe: &Probe| step(probe.call, &probe.path, probe.outcome);
        self.probes.iter().map(step).collect()
    }
}

#[derive(Deserialize)]
struct Checked {
    programs: Vec<Predicted>,
}

#[derive(Deserialize)]
struct Predicted {
    storm: SearchCost,
    probes: Vec<Probe>,
}

/// Runs the program in every way and compares.
pub(super) fn compare(runner: &Runner, trial: &Trial) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(error) = compare_into(runner, trial, &mut verdict) {
        verdict.wrong.push(Wrong::NotRun(format!("{error:#}")));
    }
    verdict
}

fn compare_into(runner: &Runner, trial: &Trial, verdict: &mut Verdict) -> Result<()> {
    let program = trial.program.to_str().context("a name that is no UTF-8")?;
    let becalm = runner.becalm().to_str().context("a folder that is no UTF-8")?;
    let own = [program, trial.argument];
    let (Some(first), Some(second)) = (start(&own)?, start(&own)?) else {
        verdict.wrong.push(Wrong::NoEnd("untraced".to_owned()));
        return Ok(());
    };
    let dir = open_folder()?;
    let report = dir.path().join("report");
    let report_name = report.to_str().context("a folder that is no UTF-8")?;
    let line = [becalm, "trace", "--json", "-o", report_name, "--", program, trial.argument];
    let Some(traced) = start(&line)? else {
        verdict.wrong.push(Wrong::Output("no end when traced".to_owned()));
        return Ok(());
    };
    verdict.wrong.extend(output(&first, &second, &traced));
    let read = fs::read(&report).with_context(|| lossy(&traced.stderr))?;
    let read: Traced = serde_json::from_slice(&read)?;
    let starts = started(&own, dir.path())?;
    anyhow::ensure!(!read.images.is_empty(), "no image");
    if read.images.len() != starts.len() {
        let what = format!("{} images, {} execves", read.images.len(), starts.len());
        verdict.wrong.push(Wrong::Strace(what));
    }
    for (at, (image, seen)) in read.images.iter().zip(&starts).enumerate() {
        verdict.probes += image.probes.len();
        verdict.misses += usize::try_from(image.storm.misses()).unwrap_or(usize::MAX);
        let listed = if at == 0 { against_listing(program, image)? } else { None };
        let what = listed.or_else(|| against_run(image, seen));
        verdict.wrong.extend(what.map(Wrong::Strace));
        let line = [becalm, "check", "--json", "--probes", &image.path];
        let checked = start(&line)?.context("becalm check does not end")?;
        let checked: Checked = serde_json::from_slice(&checked.stdout)?;
        let predicted = checked.programs.first().context("nothing checked")?;
        verdict.wrong.extend(against_check(image, predicted).map(Wrong::Prediction));
    }
    Ok(())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// Compares the program's output and exit code.
fn output(first: &Ran, second: &Ran, traced: &Ran) -> Option<Wrong> {
    if first == traced || second == traced {
        return None;
    }
    let differs = |one: &Ran, other: &Ran| {
        if one.code != other.code {
            format!("exit code {} and {}", one.code, other.code)
        } else if one.stdout != other.stdout {
            "stdout".to_owned()
        } else {
            format!("stderr: {:?} and {:?}", lossy(&one.stderr), lossy(&other.stderr))
        }
    };
    // If a program prints the time or its process id, numbers are ignored.
    if first != second && without_numbers(first) == without_numbers(traced) {
        return None;
    }
    Some(if first == second {
        Wrong::Output(differs(first, traced))
    } else {
        Wrong::Varies(differs(first, second))
    })
}

fn without_numbers(ran: &Ran) -> Ran {
    let strip = |text: &[u8]| {
        let mut kept = Vec::with_capacity(text.len());
        for byte in text {
            match byte {
                b'0'..=b'9' if kept.last() == Some(&b'#') => {}
                b'0'..=b'9' => kept.push(b'#'),
                other => kept.push(*other),
            }
        }
        kept
    };
    Ran { code: ran.code, stdout: strip(&ran.stdout), stderr: strip(&ran.stderr) }
}

type Step = (becalm_core::probe::Call, bstr::BString, Outcome);

/// Returns the part of a probe that a call alone shows.
fn step(call: becalm_core::probe::Call, path: &bstr::BString, outcome: Outcome) -> Step {
    (call, path.clone(), if outcome.is_failed_call() { outcome } else { Outcome::Hit })
}

/// Returns the attempts in strace's record that may be probes.
fn seen_steps(attempts: Vec<Attempt>) -> Vec<Step> {
    let kept = candidates(attempts, Some(BStr::new("/etc/ld.so.cache")), None);
    kept.iter().map(|attempt| step(attempt.call, &attempt.path, attempt.outcome)).collect()
}

/// Compares with a start that lists and exits, in which the loader makes all its probes. If
/// initialisers open files, the loader has made more probes by the entry point.
fn against_listing(program: &str, image: &Image) -> Result<Option<String>> {
    let listing = Start::new(program, Launch::Trace);
    let listing = Start { user: Some(becalm_testing::oracle::User::nobody()), ..listing };
    let listed = seen_steps(strace(&listing)?.attempts());
    let ours = image.steps();
    let differs = image.initialisers == 0 && listed != ours;
    Ok(differs.then(|| parting("a start that lists", &ours, &listed)))
}

/// Runs the program under `strace`. Returns the steps of each program that the first process
/// executed.
fn started(line: &[&str], dir: &Path) -> Result<Vec<Vec<Step>>> {
    let record = dir.join("strace");
    let name = record.to_str().context("a folder that is no UTF-8")?;
    let calls = format!("trace={TRACED_CALLS}");
    let strace = ["/usr/bin/strace", "-f", "-qq", "-xx", "--signal=none", "-e", &calls, "-o", name];
    start(&[&strace, line].concat())?.context("no end under strace")?;
    let all = parse(&fs::read(&record)?);
    let pid = all.first().map(|call| call.pid);
    let own: Vec<_> = all.into_iter().filter(|call| Some(call.pid) == pid).collect();
    let became = |c: &Syscall| c.name == "execve" && matches!(c.result, CallResult::Ok(_));
    Ok(own.split(became).skip(1).map(|calls| seen_steps(attempts(calls))).collect())
}

/// Checks that the loader's probes are the beginning of the program's calls.
fn against_run(image: &Image, seen: &[Step]) -> Option<String> {
    let ours = image.steps();
    let is_there = if image.initialisers == 0 {
        seen.starts_with(&ours)
    } else {
        // Initialisers open files between and after the probes.
        let mut rest = seen.iter();
        ours.iter().all(|step| rest.any(|other| other == step))
    };
    (!is_there).then(|| parting("a start that runs", &ours, seen))
}

fn against_check(image: &Image, predicted: &Predicted) -> Option<String> {
    let steps = |probes: &[Probe]| -> Vec<Step> {
        probes.iter().map(|probe| step(probe.call, &probe.path, probe.outcome)).collect()
    };
    let (ours, theirs) = (steps(&image.probes), steps(&predicted.probes));
    if ours != theirs {
        return Some(parting("check", &ours, &theirs));
    }
    let request = |probe: &Probe| (probe.needed_by.clone(), probe.needed.clone(), probe.source);
    if !image.probes.iter().map(request).eq(predicted.probes.iter().map(request)) {
        return Some("attributed to others".to_owned());
    }
    let (ours, theirs) = (image.storm, predicted.storm);
    (ours != theirs).then(|| format!("storm {ours:?}, predicted {theirs:?}"))
}

/// Describes the first difference of two sequences.
fn parting(what: &str, ours: &[Step], theirs: &[Step]) -> String {
    let at = ours.iter().zip(theirs).take_while(|(one, other)| one == other).count();
    format!(
        "{what}: {} and {} steps, at {at}: {:?} and {:?}",
        ours.len(),
        theirs.len(),
        ours.get(at),
        theirs.get(at)
    )
}
