//! `lab bench check`: `becalm check` in comparison with libtree and lddtree, on one list of files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use becalm_host::bench::{self, Options, Rounds, Taken, Timed, Variant};
use becalm_host::trace::Command;
use becalm_host::{Format, WalkOptions, find_objects};
use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::closures::{Resolved, of_becalm, of_lddtree, of_libtree};
use super::machine::{versions, write_raw};
use super::{listed, spread};
use crate::child;
use crate::elf::Dynamic;

/// Directory of the listed files, and their number.
const FOLDER: &str = "/usr";
const FILES: usize = 2500;
/// Number of rounds of the fast tools, and of the slow ones beside becalm.
const ROUNDS: usize = 20;
const SLOW_ROUNDS: usize = 3;
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(600);
/// File for the raw data.
const RAW: &str = "lab/runs/check.json";

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct CheckBench {
    /// The becalm to measure, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
}

/// The option of a run, and the reader of its output.
type Counted = (Option<&'static str>, fn(&str) -> Result<Resolved>);
/// A time of a run.
type Of = fn(&Taken) -> u64;

/// A tool: its name, the words of its command line, and the files after them.
struct Tool<'a> {
    name: &'static str,
    words: &'a [&'a str],
    files: &'a [PathBuf],
    /// The run that is counted.
    counted: Counted,
}

impl Tool<'_> {
    fn words(&self, option: Option<&str>) -> impl Iterator<Item = OsString> {
        let words = self.words.iter().copied().chain(option).map(OsString::from);
        words.chain(self.files.iter().map(OsString::from)).collect::<Vec<_>>().into_iter()
    }

    fn count(&self) -> Result<Resolved> {
        let mut words = self.words(self.counted.0);
        let mut command = child::command(words.next().unwrap_or_default());
        let output = command.args(words).output().context(self.name)?;
        (self.counted.1)(&String::from_utf8_lossy(&output.stdout)).context(self.name)
    }
}

/// Measures, prints the table and writes the raw data.
pub(super) fn run(args: &CheckBench) -> Result<()> {
    let becalm = args.becalm.canonicalize().context("--becalm: run scripts/build first")?;
    let files = choose(Path::new(FOLDER))?;
    let list = listed(&files)?;
    let our_words = [&*becalm.to_string_lossy(), "check"];
    let each =
        ["xargs", "-n", "1", "-a", &list.path().to_string_lossy(), "/usr/bin/libtree", "-vv"];
    let tool = |name, words, counted| Tool { name, words, files: &files, counted };
    let ours = || tool("becalm", &our_words, (Some("--json"), of_becalm));
    // libtree lists each library once per run, so it is also run once per file.
    let once = tool("libtree -vv", &["/usr/bin/libtree", "-vv"], (Some("-p"), of_libtree));
    let each = Tool { files: &[], ..tool("libtree, each file", &each, (Some("-p"), of_libtree)) };
    let lddtree = tool("lddtree", &["/usr/bin/python3", "/usr/bin/lddtree"], (None, of_lddtree));
    println!("{} files of {FOLDER}\n", files.len());
    println!(
        "| tool | rounds | wall, ms | CPU, ms | wall, times becalm | CPU, times becalm | files | libraries |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let fast = measured(&[ours(), once], ROUNDS)?;
    let slow = measured(&[ours(), each, lddtree], SLOW_ROUNDS)?;
    fs::create_dir_all("lab/runs")?;
    let list = json!({ "folder": FOLDER, "files": files.len() });
    let record = json!({ "versions": versions(&becalm), "list": list, "fast": fast, "slow": slow });
    write_raw(Some(Path::new(RAW)), Path::new(FOLDER), record)?;
    println!("\nraw data: {RAW}");
    Ok(())
}

/// Returns the first objects below `folder`, in order of path, that need other objects. becalm's own parser
/// has no part in the choice.
fn choose(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = find_objects(&[folder.to_owned()], WalkOptions::default()).objects;
    let elf = found.into_par_iter().filter(|object| object.format == Format::Elf);
    let needs = |path: &PathBuf| {
        let has_text = path.to_str().is_some();
        has_text && Dynamic::read(path).is_ok_and(|dynamic| !dynamic.needed.is_empty())
    };
    let mut files: Vec<PathBuf> = elf.map(|object| object.path).filter(needs).collect();
    ensure!(files.len() >= FILES, "{FOLDER}: {} such files, {FILES} wanted", files.len());
    files.truncate(FILES);
    Ok(files)
}

/// Measures tools in rounds, the first one twice, and prints a row for each. An unresolved library makes each
/// tool fail in its own way, so exit codes do not count.
fn measured(tools: &[Tool<'_>], rounds: usize) -> Result<Vec<Value>> {
    let rounds = Rounds::Exactly(rounds);
    let options = Options { rounds, timeout: LIMIT, accept_failure: true, ..Options::default() };
    let variant = |tool: &Tool<'_>| {
        let mut words = tool.words(None);
        let command = Command::new(words.next().unwrap_or_default(), words);
        Variant { name: tool.name.to_owned(), command, enter: None }
    };
    let variants: Vec<Variant> = tools.iter().map(variant).collect();
    let all = bench::measure(&variants, &options, &mut |_, _| ())?.variants;
    let row = |(timed, tool): (&Timed, &Tool<'_>)| {
        let counted = tool.count()?;
        ensure!(counted.files > 0, "{}: no file is listed; is it installed?", tool.name);
        let first = &all[0].runs;
        let of = |value: Of| spread(timed.runs.iter().map(|it| value(it) as f64 / 1e6));
        let ratio = |value: Of| {
            let pairs = timed.runs.iter().zip(first);
            spread(pairs.map(|(one, other)| value(one) as f64 / value(other) as f64))
        };
        let (name, again) = (&timed.name, if timed.control { " again" } else { "" });
        let (wall, cpu): (Of, Of) = (|it| it.wall_ns, |it| it.cpu_ns);
        println!(
            "| {name}{again} | {} | {} | {} | {} | {} | {} | {} |",
            timed.runs.len(),
            of(wall),
            of(cpu),
            ratio(wall),
            ratio(cpu),
            counted.files,
            counted.libraries
        );
        let ns = |value: Of| timed.runs.iter().map(value).collect::<Vec<_>>();
        Ok(
            json!({ "tool": format!("{name}{again}"), "resolved": counted, "wall_ns": ns(wall), "cpu_ns": ns(cpu) }),
        )
    };
    all.iter().zip(tools.iter().chain(tools.first())).map(row).collect()
}
