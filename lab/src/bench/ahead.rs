//! Cold starts of a program: as it is, with its pages read ahead, and after
//! all its files were read as a whole; and a plain start after pages were read that are predicted from the
//! files alone.
//!
//! It needs root, because the page cache is dropped before each start. `lab slowdisk` runs it on a
//! disk with a latency. Records name inodes, so the starts that are learned from are made here.
//! The bytes that a start reads are those of the disk, whichever process reads them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use becalm_host::bench::drop_caches;
use becalm_host::bench::stats::Spread;
use becalm_host::pages::PAGE;
use clap::Args;
use nix::sys::stat::{major, minor};
use serde_json::Value;

use super::busy::Busy;

/// Number of starts that becalm learns from, and the pauses after them, in which it records.
const LEARNED: usize = 8;
const PAUSE: Duration = Duration::from_secs(3);
/// The user and group ID of nobody, who starts the program.
const NOBODY: u32 = 65_534;
/// Time after a start in which pages may still be read ahead.
const REST: Duration = Duration::from_millis(200);
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
    /// Number of threads that read pages from the same disk all the time
    #[arg(long, value_name = "N", default_value_t = 0)]
    beside: usize,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The variants, in the order of their lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Ahead,
    /// Whole files are read by [`THREADS`], and the program is started afterwards.
    Whole,
    /// The program after `run --warm`, which is not timed, without a record.
    Predicted,
    /// The program again, while everything is in memory.
    Warm,
}

const WAYS: [(Way, &str); 6] = [
    (Way::Plain, "plain"),
    (Way::Plain, "plain again"),
    (Way::Ahead, "run"),
    (Way::Whole, "whole files, 32 threads"),
    (Way::Predicted, "plain after run --warm"),
    (Way::Warm, "plain, warm"),
];

/// Measurements of one start.
struct Taken {
    ms: f64,
    /// Megabytes that were read from the disk, by whichever process.
    megabytes: f64,
    /// Reads of the threads beside it in each ms.
    beside: f64,
}

/// Learns the program's pages, measures, and prints a table.
///
/// # Errors
/// Returns an error if the program or becalm fails, nothing was recorded, or this is not root.
pub(super) fn run(args: &AheadBench) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let becalm = args.becalm.canonicalize().context(args.becalm.display().to_string())?;
    chown(scratch.path(), Some(NOBODY), Some(NOBODY))?;
    let bench = Bench { becalm, home: scratch.path(), command: &args.command };
    for _ in 0..LEARNED {
        bench.start(Way::Ahead)?;
        thread::sleep(PAUSE);
    }
    let touched = recorded(scratch.path())?;
    let files: Vec<PathBuf> = touched.keys().cloned().collect();
    let length = |file: &Path| file.metadata().map_or(0, |facts| facts.len());
    let bytes: u64 = files.iter().map(|file| length(file)).sum();
    let largest = files.iter().max_by_key(|file| length(file)).context("no files")?;
    let disk = largest.metadata().map_or(0, |facts| facts.dev());
    let others = Busy::start(args.beside, largest)?;
    let mut taken: [Vec<Taken>; WAYS.len()] = Default::default();
    for round in 0..args.rounds {
        for step in 0..WAYS.len() {
            // Each round begins with another one, so that none always follows the same one.
            let at = (round + step) % WAYS.len();
            taken[at].push(bench.measure(WAYS[at].0, &files, disk, &others)?);
        }
    }
    let name = args.command.join(" ".as_ref());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let is_there = |path: &Path| path.metadata().is_ok_and(|facts| facts.dev() == disk);
    let touched: u64 = touched.iter().filter(|it| is_there(it.0)).map(|it| it.1).sum();
    println!(
        "{}: {} files, {} MB, of which {:.1} MB are touched; load {}",
        name.display(),
        files.len(),
        bytes >> 20,
        touched as f64 / f64::from(1 << 20),
        load.trim()
    );
    for ((_, label), own) in WAYS.iter().zip(&taken) {
        let spread = |values: Vec<f64>| Spread::of(&values);
        let median = |of: fn(&Taken) -> f64| spread(own.iter().map(of).collect()).median;
        let ratios = own.iter().zip(&taken[0]).map(|(own, plain)| own.ms / plain.ms);
        let Spread { low, median: ratio, high, .. } = spread(ratios.collect());
        let (ms, read) = (median(|it| it.ms), median(|it| it.megabytes));
        print!("  {label:<25}{ms:>8.0} ms{ratio:>8.3} ({low:.3} to {high:.3}){read:>8.1} MB read");
        match args.beside {
            0 => println!(),
            _ => println!("{:>8.1} reads/ms beside", median(|it| it.beside)),
        }
    }
    Ok(())
}

/// The becalm that starts the command, as the user nobody.
struct Bench<'a> {
    becalm: PathBuf,
    /// The user's home and cache.
    home: &'a Path,
    command: &'a [OsString],
}

impl Bench<'_> {
    /// Starts the program in one way, with empty caches.
    fn measure(&self, way: Way, files: &[PathBuf], disk: u64, others: &Busy) -> Result<Taken> {
        match way {
            Way::Warm => self.start(way)?,
            _ => drop_caches(&[])?,
        }
        let (sectors_before, others_before) = (sectors(disk), others.reads());
        if way == Way::Predicted {
            // This home has no record of the program.
            let warm = [self.becalm.as_os_str(), "run".as_ref(), "--warm".as_ref()];
            let line = [&warm[..], &[&self.command[0]]].concat();
            self.finish(&line, &self.home.join("empty"))?;
        }
        let (others_at_begin, begin) = (others.reads(), Instant::now());
        if way == Way::Whole {
            read(files);
        }
        self.start(way)?;
        let ms = 1000.0 * begin.elapsed().as_secs_f64();
        let beside = (others.reads() - others_at_begin) as f64 / ms;
        thread::sleep(REST);
        // Each of their reads is a page, of eight sectors.
        let theirs = (others.reads() - others_before) * 8;
        let read = (sectors(disk) - sectors_before).saturating_sub(theirs);
        Ok(Taken { ms, megabytes: read as f64 / 2048.0, beside })
    }

    /// Starts the program once and waits for its end.
    fn start(&self, way: Way) -> Result<()> {
        let run = [self.becalm.as_os_str(), "run".as_ref(), "--".as_ref()];
        let run = run.into_iter().filter(|_| way == Way::Ahead);
        let line: Vec<&OsStr> = run.chain(self.command.iter().map(OsString::as_os_str)).collect();
        self.finish(&line, self.home)
    }

    fn finish(&self, line: &[&OsStr], home: &Path) -> Result<()> {
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).env("HOME", home).env("XDG_CACHE_HOME", home);
        command.uid(NOBODY).gid(NOBODY).current_dir(self.home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
        ensure!(status.success(), "{command:?}: {status}");
        Ok(())
    }
}

/// Returns the files of all records, and the bytes of each that at least half of the starts touched:
/// the processes of a command may have a record each.
fn recorded(cache: &Path) -> Result<BTreeMap<PathBuf, u64>> {
    let mut files = BTreeMap::new();
    let programs = cache.join("becalm/programs");
    for entry in fs::read_dir(&programs).with_context(|| programs.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "pages") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let mut lines = text.lines().map(serde_json::from_str::<Value>);
        let header = lines.next().context("an empty record")??;
        for line in lines {
            let file = line?;
            let since = file["since"].as_u64().unwrap_or(0);
            let starts = header["starts"].as_u64().unwrap_or(1).saturating_sub(since);
            let bytes = touched(&file["ranges"], starts);
            let path = file["path"].as_str().unwrap_or_default();
            let known: &mut u64 = files.entry(PathBuf::from(path)).or_default();
            // Another program touched others of its pages, or the same.
            *known = bytes.max(*known);
        }
    }
    if files.is_empty() {
        bail!("becalm recorded no files of this program");
    }
    Ok(files)
}

/// Returns the bytes of ranges of a record that at least half of the starts touched.
fn touched(ranges: &Value, starts: u64) -> u64 {
    let ranges = ranges.as_array().into_iter().flatten();
    let used = ranges.filter(|range| range[2].as_u64().unwrap_or(0) * 2 >= starts);
    used.filter_map(|range| range[1].as_u64()).sum::<u64>() * PAGE
}

/// Returns the sectors of 512 bytes that were read from a disk so far; 0 if the file system has none.
fn sectors(device: u64) -> u64 {
    let (major, minor) = (major(device), minor(device));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
    let sectors = text.ok().and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
    sectors.unwrap_or(0)
}

/// Reads whole files, as `vmtouch -t` does.
fn read(files: &[PathBuf]) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_that_half_of_the_starts_touched_are_counted_once_a_file() {
        let dir = tempfile::tempdir().expect("made");
        let programs = dir.path().join("becalm/programs");
        fs::create_dir_all(&programs).expect("made");
        for (name, ranges) in [("a", json!([[0, 5, 3], [9, 1, 2], [20, 7, 1]])), ("b", json!([]))] {
            let file = json!({"path": "/x", "ranges": ranges});
            let text = format!("{}\n{file}\n", json!({"starts": 3}));
            fs::write(programs.join(format!("{name}.pages")), text).expect("written");
        }
        let files = recorded(dir.path()).expect("records");
        assert_eq!(files, BTreeMap::from([(PathBuf::from("/x"), 6 * 4096)]));
        fs::remove_dir_all(&programs).expect("removed");
        assert!(recorded(dir.path()).is_err(), "without a record nothing was learned");
    }
}
