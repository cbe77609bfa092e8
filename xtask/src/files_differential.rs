//! Compares `becalm check --files` with the files that `strace` sees a real loader open.
//!
//! Each program's loader lists its libraries and exits (`LD_TRACE_LOADED_OBJECTS`), so that no code
//! of a program runs. The links on the way to each file are followed here by `readlink`, and
//! compared as well.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::probe::{Call, Outcome};
use becalm_testing::oracle::{Launch, Start};
use becalm_testing::strace::strace;
use serde_json::Value;

use crate::command::given_or_beside;
use crate::differential::verdicts;
use crate::root;
use crate::tally::Tally;
use crate::trace_differential::choose;

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm to try; by default the one in this program's directory.
    #[arg(long, value_name = "FILE")]
    becalm: Option<PathBuf>,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 100)]
    programs: usize,
    /// Seed of the sample: the same seed selects the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// A lab store: every program of it.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
}

/// The files of one start, and the links on the way to them, with their targets.
type Files = BTreeSet<(PathBuf, Option<PathBuf>)>;

/// Compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if a store cannot be read or a program cannot be started.
pub fn run(options: &Options) -> Result<bool> {
    let becalm = given_or_beside(options.becalm.as_deref(), "becalm")?;
    let trials = choose::trials(&options.store, options.programs, options.seed)?;
    let mut programs: Vec<PathBuf> = trials.into_iter().map(|trial| trial.program).collect();
    programs.dedup();
    let mut tally = Tally::default();
    let compared = verdicts(&programs, |program| compare(&becalm, program));
    for (program, result) in programs.iter().zip(compared) {
        let (files, links, wrong) = result.with_context(|| program.display().to_string())?;
        let counts = tally.group("all", String::new());
        let equal = usize::from(wrong.is_empty());
        [1, files, links, equal].into_iter().zip(COLUMNS).for_each(|(n, name)| counts.add(name, n));
        let name = program.display().to_string();
        wrong.into_iter().for_each(|line| tally.differs(name.clone(), line));
    }
    print!("{}", tally.text((10, 10), &COLUMNS));
    Ok(tally.differences() == 0)
}

const COLUMNS: [&str; 4] = ["programs", "files", "links", "equal"];

/// Compares one program; returns how many files and links were seen, and the differences.
fn compare(becalm: &Path, program: &Path) -> Result<(usize, usize, Vec<String>)> {
    let (predicted, seen) = (predicted(becalm, program)?, observed(program)?);
    let shown = |what: &'static str| {
        move |(path, target): &(PathBuf, Option<PathBuf>)| {
            let kind = if target.is_some() { "link" } else { "file" };
            format!("{kind} {what}: {}", path.display())
        }
    };
    let more = predicted.difference(&seen).map(shown("not used"));
    let wrong = seen.difference(&predicted).map(shown("not listed")).chain(more).collect();
    let links = seen.iter().filter(|(_, target)| target.is_some()).count();
    Ok((seen.len() - links, links, wrong))
}

fn predicted(becalm: &Path, program: &Path) -> Result<Files> {
    let mut command = Command::new(becalm);
    command.args(["check", "--files", "--json", "--library-path", "", "--preload", ""]);
    let output = command.args(["--audit", ""]).arg(program).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("becalm check --json")?;
    let files = report["programs"][0]["files"].as_array().context("no files")?.iter();
    let file = |file: &Value| {
        let path = file["path"].as_str().context("no path")?;
        Ok((path.into(), file["target"].as_str().map(PathBuf::from)))
    };
    files.map(file).collect()
}

fn observed(program: &Path) -> Result<Files> {
    let mut files = Files::default();
    add(&mut files, program);
    add(&mut files, &root::interpreter(program).context("a static program")?);
    let run = strace(&Start::new(program, Launch::Trace))?;
    for attempt in run.attempts() {
        if attempt.call == Call::Open && attempt.outcome == Outcome::Hit {
            add(&mut files, Path::new(OsStr::from_bytes(&attempt.path)));
        }
    }
    Ok(files)
}

/// Adds an existing file at an absolute path and the links that lead to it.
fn add(files: &mut Files, path: &Path) {
    let mut way: Vec<PathBuf> = path.components().rev().map(|c| c.as_os_str().into()).collect();
    let mut at = PathBuf::new();
    while let Some(name) = way.pop() {
        match name.components().next() {
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::RootDir) => at = PathBuf::from("/"),
            _ => {
                let next = at.join(&name);
                let Ok(target) = fs::read_link(&next) else {
                    at = next;
                    continue;
                };
                way.extend(target.components().rev().map(|c| PathBuf::from(c.as_os_str())));
                files.insert((next, Some(target)));
            }
        }
    }
    files.insert((at, None));
}
