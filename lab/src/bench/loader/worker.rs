//! A process in a mount namespace of its own, where a copy of a store lies over the store;
//! it starts there what it is told to, and says what each start took.
//!
//! Asked on standard input, one line a start: a JSON list of arguments. Answered on standard
//! output: one JSON object a line. The times are taken by the worker, so that the way
//! between the two processes is not in them.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::child;

/// What a worker is told once.
#[derive(Args)]
pub(crate) struct WorkerFlags {
    /// The store
    #[arg(long)]
    store: PathBuf,
    /// What lies over it
    #[arg(long)]
    copy: PathBuf,
}

/// What one start took.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Started {
    /// From start to end.
    pub(crate) wall_ms: f64,
    /// User and kernel time of the program and of what it waited for.
    pub(crate) cpu_ms: f64,
    /// Its exit code; -1 where a signal ended it.
    pub(crate) status: i32,
}

/// A running worker.
pub(crate) struct Worker {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker that has `copy` in the place of `store`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn over(store: &Path, copy: &Path) -> Result<Self> {
        let mut command = child::command(std::env::current_exe()?);
        command.args(["bench", "loader-worker", "--store"]).arg(store).arg("--copy").arg(copy);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asks = child.stdin.take().context("no pipe to the worker")?;
        let answers = BufReader::new(child.stdout.take().context("no pipe from the worker")?);
        Ok(Self { child, asks, answers })
    }

    /// Has one program run to its end.
    ///
    /// # Errors
    /// The worker has ended, or the program cannot be started.
    pub(crate) fn start(&mut self, arguments: &[&OsStr]) -> Result<Started> {
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        writeln!(self.asks, "{}", serde_json::to_string(&words)?)?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("a worker ended at {}", words.join(" "));
        }
        serde_json::from_str(&line).with_context(|| line.clone())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It reads nothing more and ends; nothing is left to do about one that does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker's side.
///
/// # Errors
/// Not root, or a program cannot be started.
pub(crate) fn run(asked: &WorkerFlags) -> Result<()> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace of its own (root is needed)")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(&asked.copy), &asked.store, none, MsFlags::MS_BIND, none)
        .with_context(|| asked.copy.display().to_string())?;
    for line in std::io::stdin().lines() {
        let words: Vec<OsString> =
            serde_json::from_str::<Vec<String>>(&line?)?.into_iter().map(OsString::from).collect();
        println!("{}", serde_json::to_string(&once(&words)?)?);
    }
    Ok(())
}

fn once(words: &[OsString]) -> Result<Started> {
    let (program, arguments) = words.split_first().context("no program")?;
    let mut command = Command::new(program);
    command.args(arguments).env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = cpu_ms()?;
    let began = Instant::now();
    let status = command.status().with_context(|| program.to_string_lossy().into_owned())?;
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    Ok(Started { wall_ms, cpu_ms: cpu_ms()? - before, status: status.code().unwrap_or(-1) })
}

/// Of all children that have ended.
fn cpu_ms() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e3)
}
