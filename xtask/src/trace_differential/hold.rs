//! One program: what `becalm trace` says against `strace` and `becalm check`, and
//! the program's own words against those it has untraced.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::cost::Storm;
use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::candidates;
use becalm_core::record::strace::{Attempt, CallResult, TRACED_CALLS, attempts, parse};
use becalm_host::truth::{Start, Way, strace};
use bstr::BStr;
use serde::Deserialize;

use super::choose::Trial;
use super::run::{Ran, Runner, open_folder, start};

/// What came of a trial.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) probes: usize,
    pub(super) misses: usize,
    pub(super) wrong: Vec<Wrong>,
}

/// What is wrong, or not provable.
pub(super) enum Wrong {
    /// strace saw something else.
    Strace(String),
    /// The prediction is another.
    Prediction(String),
    /// The program behaves otherwise.
    Output(String),
    /// The program's output is another each time, untraced as well.
    Varies(String),
    /// It does not end by itself.
    NoEnd(String),
    /// It could not be run, or its report not be read.
    NotRun(String),
}

impl Wrong {
    /// True where nothing is wrong with becalm.
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
    storm: Storm,
    probes: Vec<Probe>,
    initialisers: usize,
}

#[derive(Deserialize)]
struct Checked {
    programs: Vec<Predicted>,
}

#[derive(Deserialize)]
struct Predicted {
    storm: Storm,
    probes: Vec<Probe>,
}

/// Runs the program in every way and compares.
pub(super) fn hold(runner: &Runner, trial: &Trial) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(error) = compare(runner, trial, &mut verdict) {
        verdict.wrong.push(Wrong::NotRun(format!("{error:#}")));
    }
    verdict
}

fn compare(runner: &Runner, trial: &Trial, verdict: &mut Verdict) -> Result<()> {
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
    let image = read.images.last().context("no image")?;
    verdict.probes = image.probes.len();
    verdict.misses = usize::try_from(image.storm.misses()).unwrap_or(usize::MAX);
    if let Some(what) = against_strace(&own, dir.path(), image)? {
        verdict.wrong.push(Wrong::Strace(what));
    }
    let line = [becalm, "check", "--json", "--probes", program];
    let checked = start(&line)?.context("becalm check does not end")?;
    let checked: Checked = serde_json::from_slice(&checked.stdout)?;
    let predicted = checked.programs.first().context("nothing checked")?;
    verdict.wrong.extend(against_check(image, predicted).map(Wrong::Prediction));
    Ok(())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// The program's own words and exit code.
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
    // Where a program names the time and its process id, numbers are left out.
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

/// What a call alone shows of a probe.
fn step(call: becalm_core::probe::Call, path: &bstr::BString, outcome: Outcome) -> Step {
    (call, path.clone(), if outcome.is_failed_call() { outcome } else { Outcome::Hit })
}

/// The loader's probes in sequence: equal to all that a loader does which lists and
/// exits, and the beginning of what the program does that runs on.
fn against_strace(line: &[&str], dir: &Path, image: &Image) -> Result<Option<String>> {
    let ours: Vec<Step> =
        image.probes.iter().map(|probe| step(probe.call, &probe.path, probe.outcome)).collect();
    let theirs = |attempts: Vec<Attempt>| -> Vec<Step> {
        let kept = candidates(attempts, Some(BStr::new("/etc/ld.so.cache")), None);
        kept.iter().map(|attempt| step(attempt.call, &attempt.path, attempt.outcome)).collect()
    };
    let listing = Start::new(line[0], Way::Trace);
    let listing = Start { user: Some(becalm_host::truth::User::nobody()), ..listing };
    let listed = theirs(strace(&listing)?.attempts());
    if image.initialisers == 0 && listed != ours {
        return Ok(Some(parting("a start that lists", &ours, &listed)));
    }
    let record = dir.join("strace");
    let name = record.to_str().context("a folder that is no UTF-8")?;
    let calls = format!("trace={TRACED_CALLS}");
    let strace = ["/usr/bin/strace", "-f", "-qq", "-xx", "--signal=none", "-e", &calls, "-o", name];
    if start(&[&strace, line].concat())?.is_none() {
        return Ok(Some("no end under strace".to_owned()));
    }
    let all = parse(&fs::read(&record)?);
    let pid = all.first().map(|call| call.pid);
    let mut calls: Vec<_> = all.into_iter().filter(|call| Some(call.pid) == pid).collect();
    let became =
        calls.iter().rposition(|c| c.name == "execve" && matches!(c.result, CallResult::Ok(_)));
    calls.drain(..became.map_or(0, |at| at + 1));
    let seen = theirs(attempts(&calls));
    let is_there = if image.initialisers == 0 {
        seen.starts_with(&ours)
    } else {
        // Initialisers look for files between and behind.
        let mut rest = seen.iter();
        ours.iter().all(|step| rest.any(|other| other == step))
    };
    Ok((!is_there).then(|| parting("a start that runs", &ours, &seen)))
}

fn against_check(image: &Image, predicted: &Predicted) -> Option<String> {
    let steps = |probes: &[Probe]| -> Vec<Step> {
        probes.iter().map(|probe| step(probe.call, &probe.path, probe.outcome)).collect()
    };
    let (ours, theirs) = (steps(&image.probes), steps(&predicted.probes));
    if ours != theirs {
        return Some(parting("check", &ours, &theirs));
    }
    let asked = |probe: &Probe| (probe.needed_by.clone(), probe.needed.clone(), probe.source);
    if !image.probes.iter().map(asked).eq(predicted.probes.iter().map(asked)) {
        return Some("attributed to others".to_owned());
    }
    let (ours, theirs) = (image.storm, predicted.storm);
    (ours != theirs).then(|| format!("storm {ours:?}, predicted {theirs:?}"))
}

/// The first place where two sequences part.
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
