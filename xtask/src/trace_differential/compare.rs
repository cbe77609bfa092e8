//! Compares `becalm trace` of one program with `strace` and `becalm check`, and the program's
//! output with its untraced output.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::cost::SearchCost;
use becalm_core::probe::{Attempt, Probe};
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, Start};
use becalm_testing::strace::{CallResult, Syscall, TRACED_CALLS, attempts, parse, strace};
use bstr::BStr;
use serde::Deserialize;
use serde_json::Value;

use super::choose::Trial;
use super::run::{Ran, open_folder, start};
use crate::difference::with_strace;

/// The result of a trial.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) probes: usize,
    pub(super) misses: usize,
    pub(super) wrong: Vec<Wrong>,
}

/// The kind of an error, or of a reason why a trial proves nothing, and its description.
pub(super) type Wrong = (&'static str, String);

/// strace recorded something else.
pub(super) const STRACE: &str = "strace";
/// The prediction differs.
pub(super) const PREDICTION: &str = "prediction";
/// The program behaves differently.
pub(super) const OUTPUT: &str = "output";
/// The program's output varies untraced as well.
pub(super) const VARIES: &str = "varies";
/// The program does not end by itself.
pub(super) const NO_END: &str = "no end";
/// The program could not be run, or its report could not be read.
pub(super) const NOT_RUN: &str = "not run";

#[derive(Deserialize)]
struct Traced {
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    path: String,
    initialisers: usize,
    #[serde(flatten)]
    seen: Predicted,
}

#[derive(Deserialize)]
struct Predicted {
    storm: SearchCost,
    probes: Vec<Probe>,
}

/// Runs the program in every way and compares.
pub(super) fn compare(becalm: &Path, trial: &Trial) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(error) = compare_into(becalm, trial, &mut verdict) {
        verdict.wrong.push((NOT_RUN, format!("{error:#}")));
    }
    verdict
}

fn compare_into(becalm: &Path, trial: &Trial, verdict: &mut Verdict) -> Result<()> {
    let program = trial.program.to_str().context("a name that is no UTF-8")?;
    let becalm = becalm.to_str().context("a folder that is no UTF-8")?;
    let own = [program, trial.argument];
    let (Some(first), Some(second)) = (start(&own)?, start(&own)?) else {
        verdict.wrong.push((NO_END, "untraced".to_owned()));
        return Ok(());
    };
    let dir = open_folder()?;
    let report = dir.path().join("report");
    let report_name = report.to_str().context("a folder that is no UTF-8")?;
    let line = [becalm, "trace", "--json", "-o", report_name, "--", program, trial.argument];
    let Some(traced) = start(&line)? else {
        verdict.wrong.push((OUTPUT, "no end when traced".to_owned()));
        return Ok(());
    };
    verdict.wrong.extend(output(&first, &second, &traced));
    let read = fs::read(&report).with_context(|| lossy(&traced.stderr))?;
    let read: Traced = serde_json::from_slice(&read)?;
    let starts = started(&own, dir.path())?;
    anyhow::ensure!(!read.images.is_empty(), "no image");
    if read.images.len() != starts.len() {
        let what = format!("{} images, {} execves", read.images.len(), starts.len());
        verdict.wrong.push((STRACE, what));
    }
    for (at, (image, seen)) in read.images.iter().zip(&starts).enumerate() {
        verdict.probes += image.seen.probes.len();
        verdict.misses += usize::try_from(image.seen.storm.misses()).unwrap_or(usize::MAX);
        let listed = if at == 0 { against_listing(program, image)? } else { None };
        let what = listed.or_else(|| against_run(image, seen));
        verdict.wrong.extend(what.map(|what| (STRACE, what)));
        let line = [becalm, "check", "--json", "--probes", &image.path];
        let checked = start(&line)?.context("becalm check does not end")?;
        let mut checked: Value = serde_json::from_slice(&checked.stdout)?;
        let predicted: Predicted = serde_json::from_value(checked["programs"][0].take())?;
        let what = against_check(image, &predicted);
        verdict.wrong.extend(what.map(|what| (PREDICTION, what)));
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
    Some(match first == second {
        true => (OUTPUT, differs(first, traced)),
        false => (VARIES, differs(first, second)),
    })
}

fn without_numbers(ran: &Ran) -> Ran {
    let strip = |text: &[u8]| {
        let sign = |byte: &u8| if byte.is_ascii_digit() { b'#' } else { *byte };
        let mut kept: Vec<u8> = text.iter().map(sign).collect();
        kept.dedup_by(|one, other| (*one, *other) == (b'#', b'#'));
        kept
    };
    Ran { code: ran.code, stdout: strip(&ran.stdout), stderr: strip(&ran.stderr) }
}

/// Returns the attempts in strace's record that may be probes.
fn seen(attempts: Vec<Attempt>) -> Vec<Attempt> {
    candidates(attempts, Some(BStr::new("/etc/ld.so.cache")), None)
}

/// Compares with a start that lists and exits, in which the loader makes all its probes. If
/// initialisers open files, the loader has made more probes by the entry point.
fn against_listing(program: &str, image: &Image) -> Result<Option<String>> {
    let listing = Start::new(program, Launch::Trace);
    let listing = Start { user: Some(becalm_testing::oracle::User::nobody()), ..listing };
    let listed = seen(strace(&listing)?.attempts());
    let difference = with_strace(&image.seen.probes, &listed).filter(|_| image.initialisers == 0);
    Ok(difference.map(|difference| format!("a start that lists: {difference}")))
}

/// Runs the program under `strace`. Returns the attempts of each program that the first process
/// executed.
fn started(line: &[&str], dir: &Path) -> Result<Vec<Vec<Attempt>>> {
    let record = dir.join("strace");
    let name = record.to_str().context("a folder that is no UTF-8")?;
    let calls = format!("trace={TRACED_CALLS}");
    let strace = ["/usr/bin/strace", "-f", "-qq", "-xx", "--signal=none", "-e", &calls, "-o", name];
    start(&[&strace, line].concat())?.context("no end under strace")?;
    let all = parse(&fs::read(&record)?);
    let pid = all.first().map(|call| call.pid);
    let own: Vec<_> = all.into_iter().filter(|call| Some(call.pid) == pid).collect();
    let became = |c: &Syscall| c.name == "execve" && matches!(c.result, CallResult::Ok(_));
    Ok(own.split(became).skip(1).map(|calls| seen(attempts(calls))).collect())
}

/// Checks that the loader's probes are the beginning of the program's calls.
fn against_run(image: &Image, seen: &[Attempt]) -> Option<String> {
    let mut rest = seen.iter();
    let first = match image.initialisers {
        0 => &seen[..seen.len().min(image.seen.probes.len())],
        // Initialisers open files between and after the probes.
        _ if image.seen.probes.iter().all(|probe| rest.any(|seen| probe.attempt() == *seen)) => {
            return None;
        }
        _ => seen,
    };
    with_strace(&image.seen.probes, first)
        .map(|difference| format!("a start that runs: {difference}"))
}

fn against_check(image: &Image, predicted: &Predicted) -> Option<String> {
    let checked: Vec<Attempt> = predicted.probes.iter().map(Probe::attempt).collect();
    if let Some(difference) = with_strace(&image.seen.probes, &checked) {
        return Some(format!("check: {difference}"));
    }
    let request = |probe: &Probe| (probe.needed_by.clone(), probe.needed.clone(), probe.source);
    if !image.seen.probes.iter().map(request).eq(predicted.probes.iter().map(request)) {
        return Some("attributed to others".to_owned());
    }
    let (ours, theirs) = (image.seen.storm, predicted.storm);
    (ours != theirs).then(|| format!("storm {ours:?}, predicted {theirs:?}"))
}
