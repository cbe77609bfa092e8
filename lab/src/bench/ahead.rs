//! Cold starts of a program: as it is, with its index alone, with its pages read ahead, and after
//! all its files were read as a whole.
//!
//! It needs root, because the page cache is dropped before each start. `lab slowdisk` runs it on a
//! disk with a latency. Records name inodes, so the starts that are learned from are made here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::unistd::{User, chown};
use serde_json::Value;

use super::Spread;

/// Number of starts that becalm learns from, and the pauses after them, in which it records.
const LEARNED: usize = 5;
const PAUSE: Duration = Duration::from_secs(3);
/// Number of threads that read whole files, as many as becalm has.
const THREADS: usize = 32;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct AheadBench {
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The user that starts the program
    #[arg(long, default_value = "nobody")]
    user: String,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The variants, in the order of their lines.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    PlainAgain,
    Index,
    Ahead,
    /// Whole files are read by this number of threads, and the program is started afterwards.
    Whole(usize),
    /// The program again, while everything is in memory.
    Warm,
}

const WAYS: [(Way, &str); 7] = [
    (Way::Plain, "plain"),
    (Way::PlainAgain, "plain again"),
    (Way::Index, "run --no-ahead"),
    (Way::Ahead, "run"),
    (Way::Whole(THREADS), "whole files, 32 threads"),
    (Way::Whole(1), "whole files, 1 thread"),
    (Way::Warm, "plain, warm"),
];

/// Learns the program's pages, measures, and prints a table.
///
/// # Errors
/// Returns an error if the program or becalm fails, nothing was recorded, or this is not root.
pub(super) fn run(args: &AheadBench) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let becalm = args.becalm.canonicalize().context(args.becalm.display().to_string())?;
    let user = User::from_name(&args.user)?.with_context(|| format!("no user {}", args.user))?;
    chown(scratch.path(), Some(user.uid), Some(user.gid))?;
    let bench = Bench { becalm, user, home: scratch.path().to_owned(), command: &args.command };
    for _ in 0..LEARNED {
        bench.start(Way::Ahead)?;
        thread::sleep(PAUSE);
    }
    let files = recorded(scratch.path())?;
    let bytes: u64 = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let mut times = [const { Vec::new() }; WAYS.len()];
    for round in 0..args.rounds {
        for at in 0..WAYS.len() {
            // Each round starts with another variant.
            let at = (at + round) % WAYS.len();
            let way = WAYS[at].0;
            if way == Way::Warm {
                bench.start(way)?;
            } else {
                drop_caches()?;
            }
            let begin = Instant::now();
            if let Way::Whole(threads) = way {
                read(&files, threads);
            }
            bench.start(way)?;
            times[at].push(1000.0 * begin.elapsed().as_secs_f64());
        }
    }
    let name = args.command.join(" ".as_ref());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{}: {} files, {} MB; load {}", name.display(), files.len(), bytes >> 20, load.trim());
    for ((_, label), own) in WAYS.iter().zip(&times) {
        let ms = Spread::of(own.iter().copied()).median;
        let ratios = own.iter().zip(&times[0]).map(|(own, plain)| own / plain);
        let Spread { low, median, high, .. } = Spread::of(ratios);
        println!("  {label:<25}{ms:>8.0} ms{median:>8.3} ({low:.3} to {high:.3})");
    }
    Ok(())
}

/// A program, and the becalm that starts it.
struct Bench<'a> {
    becalm: PathBuf,
    user: User,
    /// The user's home and cache.
    home: PathBuf,
    command: &'a [OsString],
}

impl Bench<'_> {
    /// Starts the program once and waits for its end.
    fn start(&self, way: Way) -> Result<()> {
        let through: &[&str] = match way {
            Way::Ahead => &["run", "--"],
            Way::Index => &["run", "--no-ahead", "--"],
            _ => &[],
        };
        let mut command = match through {
            [] => Command::new(&self.command[0]),
            _ => Command::new(&self.becalm),
        };
        if !through.is_empty() {
            command.args(through).arg(&self.command[0]);
        }
        command.args(&self.command[1..]);
        command.env("HOME", &self.home).env("XDG_CACHE_HOME", &self.home);
        command.uid(self.user.uid.as_raw()).gid(self.user.gid.as_raw()).current_dir(&self.home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
        if !status.success() {
            bail!("{command:?}: {status}");
        }
        Ok(())
    }
}

/// Returns the files of all records: the processes of a command may have one each.
fn recorded(cache: &Path) -> Result<Vec<PathBuf>> {
    let mut files = BTreeSet::new();
    let programs = cache.join("becalm/programs");
    for entry in fs::read_dir(&programs).with_context(|| programs.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "pages") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines().skip(1) {
            let file: Value = serde_json::from_str(line)?;
            files.extend(file["path"].as_str().map(PathBuf::from));
        }
    }
    if files.is_empty() {
        bail!("becalm recorded no files of this program");
    }
    Ok(files.into_iter().collect())
}

/// Reads whole files, as `vmtouch -t` does.
fn read(files: &[PathBuf], threads: usize) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The program reads or reports what cannot be read here.
                    let read = File::open(path);
                    let _ = read.and_then(|mut file| io::copy(&mut file, &mut io::sink()));
                }
            });
        }
    });
}

fn drop_caches() -> Result<()> {
    let kernel = "/proc/sys/vm/drop_caches";
    nix::unistd::sync();
    fs::write(kernel, "3").context(kernel)
}
