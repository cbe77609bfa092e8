//! `cargo xtask crash-trial`: kills `becalm fix` and `becalm undo`, or makes a system call fail, at
//! each of their calls in turn, with strace's fault injection. Every file must have its old or its
//! new content, or `becalm undo` must restore it, and no other file may be left over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::command::succeed;
use crate::root;

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
    let log = scene.at("strace");
    let inject = format!("inject={calls}:{what}:when={call}");
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-e", &format!("trace={calls}"), "-e", &inject, "-o"]).arg(&log);
    command.arg(&scene.becalm).args(scene.arguments(run));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("strace")?;
    let record = fs::read_to_string(&log).unwrap_or_default();
    // strace marks a failed call, but not a killed one; it reports the end of the process.
    Ok(record.contains("(INJECTED)") || record.contains("killed by SIGKILL"))
}

/// The store, beside its first content.
struct Scene {
    becalm: PathBuf,
    /// The original store, in which the libraries are found.
    lab: PathBuf,
    dir: tempfile::TempDir,
}

impl Scene {
    /// Copies the smallest `objects` programs and libraries of `store` that have a run path and
    /// need something.
    fn new(becalm: &Path, store: &Path, objects: usize) -> Result<Self> {
        let lab = store.canonicalize().context("--store: run `lab import` first")?;
        let mut found: Vec<(u64, PathBuf)> = Vec::new();
        for (path, view) in root::objects(&lab) {
            let has_run_path = view.dynamic.as_ref().is_some_and(|it| it.runpath.is_some());
            if has_run_path && view.needed().count() > 1 {
                found.push((fs::metadata(&path)?.len(), path));
            }
        }
        found.sort();
        ensure!(found.len() >= objects, "{}: too few objects", lab.display());
        let dir = tempfile::tempdir()?;
        for (_, path) in found.into_iter().take(objects) {
            let to = dir.path().join("original").join(path.strip_prefix(&lab)?);
            fs::create_dir_all(to.parent().context("a directory")?)?;
            fs::copy(&path, &to)?;
        }
        Ok(Self { becalm: becalm.to_owned(), lab, dir })
    }

    /// Returns the path of the `store`, of its `original`, or of the log of `strace`.
    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the arguments of a command for the whole store, in one thread.
    fn arguments(&self, run: &[&str]) -> Vec<String> {
        let store = self.at("store").display().to_string();
        let prefixes = format!("{}:{store}", self.lab.display());
        // These options replace running the loader, whose writes must not be counted.
        let stated = ["--libc", "glibc-2.36", "--cpu", "baseline", "--store", &prefixes];
        let stated = if run[0] == "fix" { &stated[..] } else { &[] };
        let all = [run, &["-j", "1"], stated, &[&store]].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    /// Restores the first content and runs the commands `before`.
    fn reset(&self, before: &[&[&str]]) -> Result<()> {
        succeed(Command::new("rm").arg("-rf").arg(self.at("store")))?;
        succeed(Command::new("cp").arg("-a").args([self.at("original"), self.at("store")]))?;
        before.iter().try_for_each(|run| self.becalm_does(run))
    }

    /// Undoes all edits with becalm and compares the store with its first content, byte for byte.
    fn check(&self) -> Result<()> {
        // A run on the result of a killed one must succeed.
        self.becalm_does(&["fix", "--with", "note"])?;
        self.becalm_does(&["undo"])?;
        let mut diff = Command::new("diff");
        diff.args(["--recursive", "--no-dereference"]);
        succeed(diff.args([self.at("original"), self.at("store")]))
    }

    fn becalm_does(&self, run: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.becalm);
        succeed(command.args(self.arguments(run)))
    }
}
