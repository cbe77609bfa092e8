//! Measures a program of many libraries on a file system with slow lookups, as over a network:
//! without a strategy, and with absolute names.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

use super::{Common, Row, becalm, grouped, trace};
use crate::bench::Spread;
use crate::child;
use crate::fixture::search_path;

/// Size of the program and delay of a lookup.
#[derive(Args)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(super) common: Common,
    /// Number of libraries
    #[arg(long, default_value_t = 900)]
    libraries: usize,
    /// Number of directories for them
    #[arg(long, default_value_t = 35)]
    dirs: usize,
    /// Duration of a lookup, in microseconds
    #[arg(long, default_value_t = 1000)]
    delay_us: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Measures both variants in turn, applying and undoing the fix in each round. The ratio is the
/// median of the rounds.
pub(super) fn rows(args: &Many) -> Result<Vec<Row>> {
    let Many { common: Common { becalm: tool, .. }, libraries, dirs, delay_us, rounds } = args;
    let tool = tool.canonicalize().with_context(|| tool.display().to_string())?;
    let scratch = tempfile::tempdir()?;
    let built = search_path::runpath(scratch.path(), *dirs, *libraries)?;
    let dir = built.program.parent().context("a program without a folder")?;
    let (store, program) = (dir.to_str(), built.program.to_str());
    let (store, program) = store.zip(program).context("a folder for scratch files in UTF-8")?;
    let mut failed = [0; 2];
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..*rounds {
        failed[0] = trace(&[program], &[])?.failed;
        times[0].push(slow(dir, program, *delay_us)?);
        becalm(&tool, &["fix", "--with", "absolute", "--no-sync", "--store", store, program])?;
        failed[1] = trace(&[program], &[])?.failed;
        times[1].push(slow(dir, program, *delay_us)?);
        becalm(&tool, &["undo", "--no-sync", program])?;
    }
    let ratios = times[0].iter().zip(&times[1]).map(|(plain, absolute)| plain / absolute);
    let what = format!("{libraries} libraries in {dirs} directories, {delay_us} µs a lookup");
    let row = |variant: &str, theirs: &str, ours: String| Row {
        what: format!("{what}, {variant}"),
        theirs: theirs.to_owned(),
        ours,
    };
    let ours = |at: usize, times: &[f64]| {
        format!(
            "{} failed calls, {:.1} s",
            grouped(failed[at]),
            Spread::of(times.iter().copied()).median
        )
    };
    let theirs = ["344.6 s (2,048 processes, NFS)", "47.8 s"];
    Ok(vec![
        row("as it is", theirs[0], ours(0, &times[0])),
        row("absolute names", theirs[1], ours(1, &times[1])),
        row("as it is against absolute names", "7.2", format!("{:.1}", Spread::of(ratios).median)),
    ])
}

/// Returns the seconds of one start on the slow file system, including a few milliseconds for its
/// mount.
fn slow(dir: &Path, program: &str, delay_us: u64) -> Result<f64> {
    let mut command = child::command(std::env::current_exe()?);
    command.args(["slowfs", "--delay-us", &delay_us.to_string()]).args([dir, dir]).arg("--");
    let began = Instant::now();
    child::succeed(command.arg(program))?;
    Ok(began.elapsed().as_secs_f64())
}
