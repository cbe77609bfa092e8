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

/// The files and the links of one start.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    files: BTreeSet<PathBuf>,
    links: BTreeSet<(PathBuf, PathBuf)>,
}

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
    let mut wrong = Vec::new();
    let mut differ = |what: &str, path: &Path| wrong.push(format!("{what} {}", path.display()));
    seen.files.difference(&predicted.files).for_each(|path| differ("not listed:", path));
    predicted.files.difference(&seen.files).for_each(|path| differ("not opened:", path));
    seen.links.difference(&predicted.links).for_each(|(path, _)| differ("link not listed:", path));
    predicted.links.difference(&seen.links).for_each(|(path, _)| differ("link not used:", path));
    Ok((seen.files.len(), seen.links.len(), wrong))
}

fn predicted(becalm: &Path, program: &Path) -> Result<Files> {
    let mut command = Command::new(becalm);
    command.args(["check", "--files", "--json", "--library-path", "", "--preload", ""]);
    let output = command.args(["--audit", ""]).arg(program).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("becalm check --json")?;
    let mut files = Files::default();
    for file in report["programs"][0]["files"].as_array().context("no files")? {
        let path = PathBuf::from(file["path"].as_str().context("no path")?);
        match file["target"].as_str() {
            Some(target) => drop(files.links.insert((path, target.into()))),
            None => drop(files.files.insert(path)),
        }
    }
    Ok(files)
}

fn observed(program: &Path) -> Result<Files> {
    let mut files = Files::default();
    files.add(program);
    files.add(&root::interpreter(program).context("a static program")?);
    let run = strace(&Start::new(program, Launch::Trace))?;
    for attempt in run.attempts() {
        if attempt.call == Call::Open && attempt.outcome == Outcome::Hit {
            files.add(Path::new(OsStr::from_bytes(&attempt.path)));
        }
    }
    Ok(files)
}

impl Files {
    /// Adds an existing file at an absolute path and the links that lead to it.
    fn add(&mut self, path: &Path) {
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
                    self.links.insert((next, target));
                }
            }
        }
        self.files.insert(at);
    }
}
