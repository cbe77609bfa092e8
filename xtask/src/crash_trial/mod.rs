//! `cargo xtask crash-trial`: `becalm fix` and `becalm undo` killed, and let fail, at each of
//! their calls in turn, by strace's fault injection. Whatever happens, every file is the old one
//! or the new one, or `becalm undo` makes it the old one; and nothing else is left behind.
//!
//! [`scene`] is the store that is worked on and what it must look like afterwards; here the
//! calls are gone through.

mod scene;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::scene::Scene;

/// What to try.
#[derive(Args)]
pub struct Options {
    /// The becalm to try: a static one, as scripts/build prints it, so that it is becalm that
    /// fails and not its loader
    #[arg(long)]
    becalm: PathBuf,
    /// The store whose objects are copied and worked on
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// Objects to work on
    #[arg(long, default_value_t = 8)]
    objects: usize,
    /// Points of each run at the most; 0 for all
    #[arg(long, default_value_t = 0)]
    points: usize,
}

/// Calls that change something.
const EFFECTS: &str = "write,pwrite64,pwritev,pwritev2,copy_file_range,ftruncate,fallocate,fsync,\
    fdatasync,syncfs,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,\
    rmdir,mkdir,mkdirat,fchmod,fchmodat,fchown,fsetxattr,utimensat";
/// Calls that a full disk makes fail.
const GROWING: &str = "write,pwrite64,pwritev,pwritev2,copy_file_range,ftruncate,fallocate,\
    fsync,fdatasync,syncfs,renameat2,renameat,linkat,symlinkat,mkdirat,mkdir";

/// What is done to a call.
const FAULTS: [(&str, &str, &str); 3] = [
    ("killed", EFFECTS, "signal=KILL"),
    ("no space", GROWING, "error=ENOSPC"),
    ("input/output error", EFFECTS, "error=EIO"),
];

/// The runs: what leads up to it, and the run itself.
const RUNS: [(&[&[&str]], &[&str]); 10] = [
    (&[], &["fix", "--with", "note"]),
    (&[], &["fix", "--with", "note", "--in-place"]),
    (&[], &["fix", "--with", "absolute", "--in-place"]),
    (&[], &["fix", "--with", "farm", "--allow-more-misses"]),
    (&[], &["fix", "--with", "ldcache"]),
    // A further edit on an edited file.
    (&[&["fix", "--with", "absolute", "--in-place"]], &["fix", "--with", "note", "--in-place"]),
    (&[&["fix", "--with", "note"]], &["undo"]),
    (&[&["fix", "--with", "note", "--in-place"]], &["undo", "--in-place"]),
    // What was made beside the files goes as well.
    (&[&["fix", "--with", "farm", "--allow-more-misses"]], &["undo"]),
    (&[&["fix", "--with", "ldcache"]], &["undo"]),
];

/// A run stops being interesting once no call is left to fail; one that never does is a
/// mistake here.
const MOST_CALLS: usize = 5_000;

/// Goes through all runs, faults and calls.
///
/// # Errors
/// A run could not be made, or a store was harmed: the first time is told.
pub fn run(options: &Options) -> Result<ExitCode> {
    let becalm = options.becalm.canonicalize().context("--becalm")?;
    let scene = Scene::new(&becalm, &options.store, options.objects)?;
    let mut total = 0;
    for (before, run) in RUNS {
        for (fault, calls, what) in FAULTS {
            let mut points = 0;
            for call in 1..=MOST_CALLS {
                if options.points > 0 && points >= options.points {
                    break;
                }
                scene.reset(before)?;
                if !strike(&scene, run, calls, what, call)? {
                    break;
                }
                points += 1;
                let at = || format!("becalm {}: {fault} at call {call}", run.join(" "));
                scene.check().with_context(at)?;
            }
            if points == 0 || points == MOST_CALLS {
                bail!("becalm {}: {fault}: {points} calls were struck", run.join(" "));
            }
            println!("{points:5} points  becalm {}: {fault}", run.join(" "));
            total += points;
        }
    }
    println!("{total} points, no file harmed, nothing left behind");
    Ok(ExitCode::SUCCESS)
}

/// One run whose n-th call of a kind fails; false where there is no n-th.
fn strike(scene: &Scene, run: &[&str], calls: &str, what: &str, call: usize) -> Result<bool> {
    let log = scene.log();
    let inject = format!("inject={calls}:{what}:when={call}");
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-e", &format!("trace={calls}"), "-e", &inject, "-o"]).arg(&log);
    command.arg(scene.becalm()).args(scene.arguments(run));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("strace")?;
    let record = std::fs::read_to_string(&log).unwrap_or_default();
    // A killed call is named without the mark; the process' end is.
    Ok(record.contains("(INJECTED)") || record.contains("killed by SIGKILL"))
}
