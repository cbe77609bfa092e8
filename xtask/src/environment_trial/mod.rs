//! `cargo xtask environment-trial`: compares starts in random environments with the model.
//!
//! [`scene`] makes a tree of libraries and of other files that a search may meet. [`random`] draws
//! starts: run paths, needed strings, `LD_LIBRARY_PATH`, `LD_PRELOAD`, the current directory and
//! the user. Each start is predicted, and recorded with `strace` and `LD_DEBUG`.

mod random;
mod scene;

use std::path::Path;

use anyhow::{Context, Result};
use becalm_core::record::compare::candidates;
use becalm_testing::oracle::{Launch, Start, User, ld_debug};
use becalm_testing::strace::strace;
use bstr::BStr;

use self::random::Random;
use self::scene::Scene;
use crate::difference::{with_ld_debug, with_strace};
use crate::differential::verdicts;
use crate::predict::Request;
use crate::tally::Tally;
use crate::trace_differential::run::reachable;
use crate::user::is_root;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of starts.
    #[arg(long, value_name = "N", default_value_t = 200)]
    starts: u64,
    /// Seed of the starts: the same seed and number give the same start.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// The number of predicted probes, whether the start was made as nobody, and the start with the difference, if
/// its record differs from the prediction.
type Compared = (usize, bool, Option<String>);

/// Starts and compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if the tree cannot be made (without a C compiler, for example) or a start
/// cannot be run.
pub fn run(options: &Options) -> Result<bool> {
    let scene = Scene::new()?;
    if !is_root() {
        eprintln!("only root can start programs as nobody: all are started as this user");
    }
    let (_folder, xtask) = reachable(&std::env::current_exe()?)?;
    let numbers: Vec<u64> = (0..options.starts).collect();
    let one = |&number: &u64| compare(&scene, &xtask, Random::draw(options.seed, number));
    let mut tally = Tally::default();
    for compared in verdicts(&numbers, one) {
        let (probes, as_nobody, differs) = compared?;
        let group = if as_nobody { "as nobody" } else { "as this user" };
        let counts = tally.group(group, String::new());
        counts.add("starts", 1);
        counts.add("probes", probes);
        counts.add("differ", usize::from(differs.is_some()));
        differs.into_iter().for_each(|what| tally.differs(group.to_owned(), what));
    }
    print!("{}", tally.text((16, 9), &["starts", "probes", "differ"]));
    Ok(tally.differences() == 0)
}

/// Predicts one start, runs it twice and compares.
fn compare(scene: &Scene, xtask: &Path, random: Random) -> Result<Compared> {
    let mut start = Start::new(scene.program(&random)?, Launch::Trace);
    for (name, value) in &random.env {
        start = start.env(name, scene.expand(value));
    }
    start.dir = Some(scene.at(random.dir));
    start.user = (random.as_nobody && is_root()).then(User::nobody);
    let (probes, what) = difference(&start, xtask)
        .with_context(|| format!("start {} of seed {}", random.number, random.seed))?;
    std::fs::remove_file(&start.object)?;
    Ok((probes, start.user.is_some(), what.map(|what| format!("{random:?}\n  {what}"))))
}

/// Returns the number of predicted probes and the first difference.
fn difference(start: &Start, xtask: &Path) -> Result<(usize, Option<String>)> {
    let predicted = match Request::of(start).ask(xtask, start.dir.as_deref(), start.user.as_ref()) {
        Ok(prediction) => prediction.probes,
        Err(error) => return Ok((0, Some(format!("{error:#}")))),
    };
    let cache = Some(BStr::new("/etc/ld.so.cache"));
    let seen = candidates(strace(start)?.attempts(), cache, None);
    let of_kernel = with_strace(&predicted, &seen).map(|it| format!("strace: {it}"));
    if of_kernel.is_some() {
        return Ok((predicted.len(), of_kernel));
    }
    let said = ld_debug(start)?;
    // After a fatal error the loader lists nothing, so its log does not show which attempts failed.
    let of_loader = match said.fatal {
        None => with_ld_debug(&predicted, &said.probes),
        Some(_) => None,
    };
    Ok((predicted.len(), of_loader.map(|it| format!("LD_DEBUG: {it}"))))
}
