//! Starts of a program whose tree is on a slow file system: as it is, and by `becalm run`; beside them the
//! same program with the tree on the local disk.
//!
//! The tree is mounted anew for each start, so that the kernel knows no names. Its files should not have
//! changed for an hour, because becalm copies no others.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Spread;

/// Maximum number of starts that becalm learns from, and the pauses after starts, in which it makes the
/// index, records and copies.
const MOST_LEARNED: usize = 20;
const PAUSE: Duration = Duration::from_secs(8);

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct TreesBench {
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// The tree, which is mounted on itself
    #[arg(long)]
    tree: PathBuf,
    /// Duration of a lookup, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u32,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Learns, measures, and prints a table.
///
/// # Errors
/// Returns an error if the program, becalm or the mount fails.
pub(super) fn run(args: &TreesBench) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let becalm = args.becalm.canonicalize().context(args.becalm.display().to_string())?;
    let tree = args.tree.canonicalize().context(args.tree.display().to_string())?;
    let by_becalm: Vec<OsString> = [becalm.into(), "run".into(), "--".into()]
        .into_iter()
        .chain(args.command.clone())
        .collect();
    let slow = |forgetful: bool, line: &[OsString]| -> Result<Duration> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["slowfs", "--delay-us", &args.delay_us.to_string()]);
        command.args(forgetful.then_some("--forgetful")).args([&tree, &tree]).arg("--").args(line);
        command.env("HOME", scratch.path()).env_remove("XDG_CACHE_HOME");
        command.env("BECALM_CACHE", scratch.path().join("copies"));
        command.env("BECALM_TRUST_TIMES", &tree);
        timed(command)
    };
    let mut learned = 0;
    while !has_copies(&scratch.path().join("copies")) {
        ensure!(learned < MOST_LEARNED, "becalm copies nothing in {learned} starts");
        slow(false, &by_becalm)?;
        sleep(PAUSE);
        learned += 1;
    }
    let mut times = [const { Vec::new() }; 5];
    for _ in 0..args.rounds {
        let mut local = Command::new(&args.command[0]);
        local.args(&args.command[1..]);
        times[0].push(timed(local)?);
        for (at, forgetful) in [(1, false), (3, true)] {
            times[at].push(slow(forgetful, &args.command)?);
            times[at + 1].push(slow(forgetful, &by_becalm)?);
            // It may be learned from.
            sleep(PAUSE);
        }
    }
    let names = [
        "local disk",
        "plain",
        "becalm run",
        "plain, nothing cached",
        "becalm run, nothing cached",
    ];
    for (name, all) in names.iter().zip(&times) {
        let ms = Spread::of(all.iter().map(|time| time.as_secs_f64() * 1e3));
        let pairs = all.iter().zip(&times[0]);
        let ratio = Spread::of(pairs.map(|(time, local)| time.as_secs_f64() / local.as_secs_f64()));
        println!("{name:28} {ms} ms, {ratio} of the local disk");
    }
    Ok(())
}

/// True if a record names copies.
fn has_copies(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut records = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    records.any(|record| record.contains("\"copy\""))
}

fn timed(mut command: Command) -> Result<Duration> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("a start")?;
    ensure!(status.success(), "a start fails: {status}");
    Ok(began.elapsed())
}
