//! Measures a program of many libraries on a file system with slow lookups, as over a network:
//! without a strategy, and with absolute names.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use becalm_host::bench::stats::Spread;

use super::{Row, grouped, row, search_path, trace};
use crate::becalm::becalm;
use crate::child;
use crate::words::naming;

/// Number of libraries, and of directories for them.
const LIBRARIES: usize = 900;
const DIRS: usize = 35;
/// Duration of a lookup, in microseconds.
const DELAY_US: &str = "1000";
const ROUNDS: usize = 3;

/// Measures both variants in turn, applying and undoing the fix in each round. The ratio is the
/// median of the rounds.
pub(super) fn rows(tool: &Path) -> Result<Vec<Row>> {
    let tool = tool.canonicalize().with_context(naming(tool))?;
    let scratch = tempfile::tempdir()?;
    let (program, _) = search_path::build(scratch.path(), DIRS, LIBRARIES, true)?;
    let dir = program.parent().context("a program without a folder")?;
    let mut failed = [0; 2];
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        failed[0] = trace(&[&program], &[])?.failed;
        times[0].push(slow(dir, &program)?);
        let mut fix = child::command(&tool);
        fix.args(["fix", "--with", "absolute", "--no-sync", "--store"]).args([dir, &program]);
        becalm(&mut fix)?;
        failed[1] = trace(&[&program], &[])?.failed;
        times[1].push(slow(dir, &program)?);
        becalm(child::command(&tool).args(["undo", "--no-sync"]).arg(&program))?;
    }
    let pairs = times[0].iter().zip(&times[1]);
    let ratios: Vec<f64> = pairs.map(|(plain, absolute)| plain / absolute).collect();
    let what = format!("{LIBRARIES} libraries in {DIRS} directories, {DELAY_US} µs a lookup");
    let ours = |at: usize, times: &[f64]| {
        format!("{} failed calls, {:.1} s", grouped(failed[at]), Spread::of(times).median)
    };
    let ratio = format!("{:.1}", Spread::of(&ratios).median);
    let figures = [
        ("as it is", "344.6 s (2,048 processes, NFS)", ours(0, &times[0])),
        ("absolute names", "47.8 s", ours(1, &times[1])),
        ("as it is against absolute names", "7.2", ratio),
    ];
    let rows = figures.map(|(way, theirs, ours)| row(format!("{what}, {way}"), theirs, ours));
    Ok(rows.into())
}

/// Returns the seconds of one start on the slow file system, including a few milliseconds for its
/// mount.
fn slow(dir: &Path, program: &Path) -> Result<f64> {
    let mut command = child::command(std::env::current_exe()?);
    command.args(["slowfs", "--delay-us", DELAY_US]).args([dir, dir]).arg("--");
    let began = Instant::now();
    child::succeed(command.arg(program))?;
    Ok(began.elapsed().as_secs_f64())
}
