//! `cargo xtask crash-trial`: kills `becalm fix` and `becalm undo`, or makes a system call fail, at
//! each of their calls in turn, with strace's fault injection. Every file must have its old or its
//! new content, or `becalm undo` must restore it, and no other file may be left over.
//!
//! [`scene`] has the store and its checks; this module iterates over the calls.

mod scene;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::scene::Scene;

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The becalm to try: a static one, as scripts/build prints it, so that the faults hit becalm
    /// and not its loader
    #[arg(long)]
    becalm: PathBuf,
    /// The store whose objects are copied and edited
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// Number of objects to edit
    #[arg(long, default_value_t = 8)]
    objects: usize,
    /// Maximum number of points per run; 0 for all
    #[arg(long, default_value_t = 0)]
    points: usize,
}

/// Calls that change something.
const EFFECTS: &str = "write,pwrite64,pwritev,pwritev2,copy_file_range,ftruncate,fallocate,fsync,\
    fdatasync,syncfs,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,\
    rmdir,mkdir,mkdirat,fchmod,fchmodat,fchown,fsetxattr,utimensat";
/// Calls that fail on a full disk.
const GROWING: &str = "write,pwrite64,pwritev,pwritev2,copy_file_range,ftruncate,fallocate,\
    fsync,fdatasync,syncfs,renameat2,renameat,linkat,symlinkat,mkdirat,mkdir";

/// The faults to inject.
const FAULTS: [(&str, &str, &str); 3] = [
    ("killed", EFFECTS, "signal=KILL"),
    ("no space", GROWING, "error=ENOSPC"),
    ("input/output error", EFFECTS, "error=EIO"),
];

/// The runs: first the commands that prepare the store, then the command under trial.
const RUNS: [(&[&[&str]], &[&str]); 10] = [
    (&[], &["fix", "--with", "note"]),
    (&[], &["fix", "--with", "note", "--in-place"]),
    (&[], &["fix", "--with", "absolute", "--in-place"]),
    (&[], &["fix", "--with", "farm", "--allow-more-misses"]),
    (&[], &["fix", "--with", "ldcache"]),
    // A further edit of an edited file.
    (&[&["fix", "--with", "absolute", "--in-place"]], &["fix", "--with", "note", "--in-place"]),
    (&[&["fix", "--with", "note"]], &["undo"]),
    (&[&["fix", "--with", "note", "--in-place"]], &["undo", "--in-place"]),
    // Removes files that were created in addition to the edits.
    (&[&["fix", "--with", "farm", "--allow-more-misses"]], &["undo"]),
    (&[&["fix", "--with", "ldcache"]], &["undo"]),
];

/// Maximum number of calls in a run. A run ends when it has no further call to fail; more calls
/// than this are an error in this trial.
const MOST_CALLS: usize = 5_000;

/// Iterates over all runs, faults and calls.
///
/// # Errors
/// Returns an error if a run could not be made, or for the first damaged store.
pub fn run(options: &Options) -> Result<bool> {
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
                if !inject(&scene, run, calls, what, call)? {
                    break;
                }
                points += 1;
                let at = || format!("becalm {}: {fault} at call {call}", run.join(" "));
                scene.check().with_context(at)?;
            }
            if points == 0 || points == MOST_CALLS {
                bail!("becalm {}: {fault}: {points} calls failed", run.join(" "));
            }
            println!("{points:5} points  becalm {}: {fault}", run.join(" "));
            total += points;
        }
    }
    println!("{total} points, no file harmed, nothing left behind");
    Ok(true)
}

/// Makes the n-th call of a kind fail. Returns false if there is no n-th call.
fn inject(scene: &Scene, run: &[&str], calls: &str, what: &str, call: usize) -> Result<bool> {
    let log = scene.log();
    let inject = format!("inject={calls}:{what}:when={call}");
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-e", &format!("trace={calls}"), "-e", &inject, "-o"]).arg(&log);
    command.arg(&scene.becalm).args(scene.arguments(run));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("strace")?;
    let record = std::fs::read_to_string(&log).unwrap_or_default();
    // strace marks a failed call, but not a killed one; it reports the end of the process.
    Ok(record.contains("(INJECTED)") || record.contains("killed by SIGKILL"))
}
