//! `becalm demo`: a storm made out of a program of this machine, shown, calmed by an index,
//! and what is left of it. Nothing remains.
//!
//! [`crate::scratch::import`] makes the store; becalm's own commands and `LD_DEBUG` show the rest.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use becalm_host::child::status_within;
use becalm_lib::assume::{Assumptions, StorePrefixes};
use becalm_lib::check::{Verdict, check};
use becalm_lib::targets::{self, Target};
use becalm_lib::words::{counted, words};
use rayon::prelude::*;
use serde_json::Value;

use crate::compare::apply::{self, plain, plain_assumptions};
use crate::compare::program::Program;
use crate::demo::args::DemoArgs;
use crate::exit_code::ExitStatus;
use crate::scratch::Scratch;
use crate::scratch::import::import;
use crate::terminal::style::{Look, When};

/// Shows it.
///
/// # Errors
/// There is no program to show it with, or something cannot be run or written.
pub(crate) fn run(args: &DemoArgs, color: When) -> Result<ExitStatus> {
    let scratch = Scratch::new()?;
    let demo = Demo { args, look: Look::of_stdout(color), dir: scratch.path().to_owned() };
    let outcome = demo.show();
    scratch.done(outcome)?;
    Ok(ExitStatus::Fine)
}

struct Demo<'a> {
    args: &'a DemoArgs,
    look: Look,
    dir: PathBuf,
}

/// Cost of one start.
struct Storm {
    opens: u64,
    stats: u64,
}

impl Demo<'_> {
    fn show(&self) -> Result<()> {
        let path = match &self.args.program {
            Some(path) => path.clone(),
            None => largest(Path::new("/usr/bin"))?,
        };
        let program = Program::look(&path, &StorePrefixes(OsString::new()))?;
        self.say(&format!("1. {} as this machine has it", program.path.display()));
        self.check(&program.path)?;

        self.say("2. The same program in a store of one package a directory");
        let store = self.dir.join("store");
        let stored = import(&program.closure, &program.interpreter, &store)?;
        self.check(&stored)?;

        self.say("3. The storm as it happens");
        let before = self.observed(&stored, None)?;

        self.say("4. Calmed by an index: one file beside the store, nothing in it changed");
        let index = self.dir.join("index.so");
        let mut command = becalm()?;
        command.arg("index").arg(&store).arg("-o").arg(&index);
        openly(&mut command)?;
        let after = self.observed(&stored, Some(&index))?;
        self.tell(&before, &after);
        Ok(())
    }

    fn say(&self, what: &str) {
        println!("\n{}", self.look.strong(what));
    }

    /// `becalm check`, for the reader.
    fn check(&self, program: &Path) -> Result<()> {
        let mut command = becalm()?;
        command.args(["check", "--library-path", ""]).arg(program);
        openly(&mut command)
    }

    /// One start, watched by becalm, and another, told by the loader itself.
    fn observed(&self, program: &Path, index: Option<&Path>) -> Result<Storm> {
        let storm = self.traced(program, index)?;
        let told = |who: &str, opens: u64, stats: u64| {
            println!(
                "{who:<9} {} and {} failed",
                counted(opens, "open", "opens"),
                counted(stats, "stat", "stats")
            );
        };
        told("becalm:", storm.opens, storm.stats);
        let logs = tempfile::tempdir_in(&self.dir)?;
        let mut command = self.started(program, index)?;
        command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_DEBUG", "libs");
        command.env("LD_DEBUG_OUTPUT", logs.path().join("log"));
        self.quietly(&mut command)?;
        let mut tried = 0;
        for entry in fs::read_dir(logs.path())? {
            tried += fs::read_to_string(entry?.path())?.matches("trying file=").count() as u64;
        }
        println!("{:<9} the loader tried {}", "LD_DEBUG:", counted(tried, "file", "files"));
        Ok(storm)
    }

    /// A start under `becalm trace`.
    fn traced(&self, program: &Path, index: Option<&Path>) -> Result<Storm> {
        let record = self.dir.join("record.json");
        let mut command = becalm()?;
        command.args(["trace", "--json", "-o"]).arg(&record).arg("--");
        match index {
            Some(index) => {
                command.arg(us()?).args(["run", "--index"]).arg(index).arg("--").arg(program)
            }
            None => command.arg(program),
        };
        match self.args.args.is_empty() {
            true => command.arg("--version"),
            false => command.args(&self.args.args),
        };
        self.quietly(&mut command)?;
        let text = fs::read(&record).context("becalm trace left no record")?;
        let report: Value = serde_json::from_slice(&text).context("the record of becalm trace")?;
        let images = report["images"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_ours =
            |image: &&Value| image["file"].as_str().map(OsStr::new) == Some(program.as_os_str());
        let image = images.iter().find(is_ours).context("the program was not started")?;
        let count = |name: &str| image["storm"][name].as_u64().unwrap_or(0);
        Ok(Storm { opens: count("missed_opens"), stats: count("missed_stats") })
    }

    fn started(&self, program: &Path, index: Option<&Path>) -> Result<Command> {
        let Some(index) = index else {
            let mut command = Command::new(program);
            plain(&mut command);
            return Ok(command);
        };
        let mut command = becalm()?;
        command.args(["run", "--index"]).arg(index).arg("--").arg(program);
        Ok(command)
    }

    /// Runs a command within the time limit; its output is nobody's matter.
    fn quietly(&self, command: &mut Command) -> Result<()> {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // Whatever its exit code: what counts is seen from outside.
        if status_within(&mut child, self.args.time_limit)?.is_none() {
            bail!(
                "the program did not end within {} s and was killed; name other arguments: \
                 becalm demo PROGRAM -- ARGS",
                self.args.time_limit.as_secs_f64()
            );
        }
        Ok(())
    }

    fn tell(&self, before: &Storm, after: &Storm) {
        let (was, left) = (before.opens + before.stats, after.opens + after.stats);
        let gone =
            self.look.good(&format!("{} of {was} misses are gone", was.saturating_sub(left)));
        let what = if left == 0 { "none is left".to_owned() } else { format!("{left} are left") };
        println!("\n{gone}; {what}.");
    }
}

/// The program of a folder that loads most.
fn largest(folder: &Path) -> Result<PathBuf> {
    let assumed = Assumptions::new(&plain_assumptions())?;
    let found = targets::find(&assumed, &[folder.to_owned()]);
    let some = |files: &[Target]| {
        let session = assumed.fs.session();
        let checked = files.iter().map(|file| (file, check(&assumed, &session, file).0));
        let objects = checked.filter_map(|(file, verdict)| match verdict {
            Verdict::Checked(program)
                if program.interpreter.is_some() && program.unresolved.is_empty() =>
            {
                Some((program.storm.objects, file.host.clone()))
            }
            _ => None,
        });
        objects.collect::<Vec<_>>()
    };
    let programs: Vec<(u64, PathBuf)> = found.files.par_chunks(64).flat_map_iter(some).collect();
    let largest = programs.into_iter().max_by_key(|(objects, _)| *objects).map(|(_, path)| path);
    largest.with_context(|| format!("{}: no program with libraries; name one", folder.display()))
}

fn us() -> Result<PathBuf> {
    std::env::current_exe().context("becalm itself")
}

/// One of becalm's own commands.
fn becalm() -> Result<Command> {
    Ok(apply::becalm(&us()?, None))
}

/// Runs a command whose output is the reader's. A finding is no failure.
fn openly(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::inherit()).stderr(Stdio::inherit()).status();
    let status = status.map_err(|error| anyhow!("becalm: {}", words(&error)))?;
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("becalm ended early: {status}"),
    }
}
