//! The places of the trial, the starts, and the processes that learn from them.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use becalm_host::child::ends_within;
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::compare::own_calls;
use super::tree::{self, Kind, PROGRAMS, choice};
use crate::command::succeed;
use crate::trace_differential::run::copy_into;
use crate::walk::walk;

/// Time that a start may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Time that learning may take.
const LEARNING: Duration = Duration::from_secs(60);
/// Time in which a process that learns has begun.
const BEGUN: Duration = Duration::from_millis(50);
/// Time after which a lock without a process counts as left behind.
const LEFT: Duration = Duration::from_secs(1);
/// Ending of the lock of a process that learns.
const LOCK: &str = "tree-lock";

/// A folder with a source, its mount and the caches.
pub(super) struct Scene {
    folder: PathBuf,
}

/// A start that has ended.
pub(super) struct Ended {
    pub(super) output: Vec<u8>,
    /// True if a program that it has started was answered too.
    pub(super) is_child_answered: bool,
    /// Number of recorded paths from which the program was answered.
    pub(super) served: u64,
    /// Exit code, 128+n for a signal, and standard error if it is not 0.
    pub(super) failure: Option<String>,
    /// The start was killed.
    pub(super) is_killed: bool,
}

/// A start that goes on, with the name of its files.
pub(super) struct Started(Child, String);

impl Scene {
    /// Returns the scene that [`Scene::prepare`] has made in a folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes the folders, the program and a copy of becalm. Processes of the copy are those of the
    /// trial.
    pub(super) fn prepare(&self, becalm: &Path, is_large_file: bool) -> Result<()> {
        for name in ["source", "mount", "home", "cache"] {
            fs::create_dir(self.folder.join(name))?;
        }
        self.make_copies()?;
        fs::create_dir(self.at("source").join(PROGRAMS))?;
        fs::rename(copy_into(&self.folder, becalm)?, self.at("becalm"))?;
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
        // The C library has two names for each function with sizes of files.
        cc.args(is_large_file.then_some("-D_FILE_OFFSET_BITS=64"));
        cc.arg("-o").arg(self.at("source").join(PROGRAMS).join("look"));
        cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/trees_trial/look.c"));
        succeed(&mut cc)
    }

    fn make_copies(&self) -> Result<()> {
        Ok(fs::DirBuilder::new().mode(0o700).create(self.at("copies"))?)
    }

    /// Returns the path of something in the folder: `source` and its `mount`, the `list`, `becalm`, its
    /// `copies`, or `outside`, a file on the local disk to which a link of the tree leads.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn look(&self) -> PathBuf {
        self.at("mount").join(PROGRAMS).join("look")
    }

    /// The arguments of a plain start, and of one by becalm.
    fn line(&self, is_plain: bool) -> Vec<PathBuf> {
        let by = [self.at("becalm"), "run".into(), "--".into()];
        let by = by.into_iter().filter(|_| !is_plain);
        by.chain([self.look(), self.at("list")]).collect()
    }

    /// Begins a start. Starts that go on at the same time have different names.
    fn begin(&self, line: &[PathBuf], name: &str) -> Result<Started> {
        let (program, arguments) = line.split_first().context("a line")?;
        let log = self.folder.join(format!("log-{name}"));
        // The log is appended to.
        let _ = fs::remove_file(&log);
        let file = |kind| File::create(self.folder.join(format!("{kind}-{name}")));
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/").stdin(Stdio::piped());
        command.envs([("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")]);
        command.env("HOME", self.at("home"));
        command.env("XDG_CACHE_HOME", self.at("cache"));
        command.env("BECALM_CACHE", self.at("copies")).env("BECALM_TRUST_TIMES", self.at("mount"));
        command.env("BECALM", format!("log:{}", log.display()));
        command.stdout(file("out")?).stderr(file("error")?);
        let child = command.spawn().with_context(|| program.display().to_string())?;
        Ok(Started(child, name.to_owned()))
    }

    /// Starts the program plainly; returns what it prints.
    pub(super) fn plain(&self) -> Result<Vec<u8>> {
        let ended = self.wait(self.begin(&self.line(true), "plain")?)?;
        ensure!(ended.failure.is_none(), "a plain start fails: {:?}", ended.failure);
        Ok(ended.output)
    }

    /// Begins a start by becalm.
    pub(super) fn start(&self, name: &str) -> Result<Started> {
        self.begin(&self.line(false), name)
    }

    /// Starts the program by becalm so that it waits, and starts itself when [`Self::wait`] is called.
    pub(super) fn start_of_child(&self) -> Result<Started> {
        self.begin(&[self.line(false), vec!["later".into()]].concat(), "child")
    }

    /// Waits for the end of a start.
    ///
    /// # Errors
    /// Returns an error if it does not end in time.
    pub(super) fn wait(&self, Started(mut child, name): Started) -> Result<Ended> {
        // The end of its input is what a program waits for.
        drop(child.stdin.take());
        if !ends_within(&mut child, LIMIT)? {
            child.kill()?;
            child.wait()?;
            bail!("a start ({name}) does not end");
        }
        let status = child.wait()?;
        let file = |kind: &str| self.folder.join(format!("{kind}-{name}"));
        let error = || fs::read_to_string(file("error")).unwrap_or_default();
        let log = fs::read_to_string(file("log")).unwrap_or_default();
        Ok(Ended {
            output: fs::read(file("out"))?,
            served: served(&log).into_iter().max().unwrap_or(0),
            is_child_answered: served(&log).len() > 1,
            failure: (!status.success()).then(|| format!("{status}: {}", error().trim_end())),
            is_killed: status.signal() == Some(Signal::KILL.as_raw()),
        })
    }

    /// Returns the number of calls below the mount that the program itself makes in a start.
    pub(super) fn calls(&self, is_plain: bool) -> Result<usize> {
        let log = self.at("strace");
        let line = ["strace", "-f", "-qq", "-e", "trace=%file", "-o"].map(PathBuf::from);
        let line: Vec<PathBuf> =
            line.into_iter().chain([log.clone()]).chain(self.line(is_plain)).collect();
        let ended = self.wait(self.begin(&line, "traced")?)?;
        ensure!(ended.failure.is_none(), "a start under strace fails: {:?}", ended.failure);
        let log = String::from_utf8_lossy(&fs::read(log)?).into_owned();
        let [program, below] =
            [self.look(), self.at("mount")].map(|path| path.display().to_string());
        Ok(own_calls(&log, &program, &below))
    }

    /// Waits until no process learns. Returns true if a lock was left behind.
    ///
    /// # Errors
    /// Returns an error if learning takes too long.
    pub(super) fn learned(&self) -> Result<bool> {
        sleep(BEGUN);
        let began = Instant::now();
        let mut without_process: Option<Instant> = None;
        while self.has_lock() {
            if !self.processes().is_empty() {
                without_process = None;
            } else if without_process.get_or_insert_with(Instant::now).elapsed() > LEFT {
                return Ok(true);
            }
            ensure!(began.elapsed() < LEARNING, "learning takes more than {LEARNING:?}");
            sleep(Duration::from_millis(10));
        }
        Ok(false)
    }

    fn has_lock(&self) -> bool {
        let is_lock = |(path, _): &(PathBuf, _)| path.extension() == Some(OsStr::new(LOCK));
        // A folder that changes while it is listed is listed again.
        let has_lock = |all: Vec<_>| all.iter().any(is_lock);
        ["copies", "cache"].iter().any(|name| walk(&self.at(name)).map_or(true, has_lock))
    }

    /// Returns the processes of the becalm under trial. A program that it has started is none of them.
    fn processes(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_becalm = |number: &i32| {
            fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|exe| exe == self.at("becalm"))
        };
        numbers.filter(is_becalm).filter_map(Pid::from_raw).collect()
    }

    /// Kills the processes of the becalm under trial; returns their number.
    pub(super) fn kill(&self) -> usize {
        // One that has ended meanwhile needs no signal.
        self.processes().iter().filter(|pid| kill_process(**pid, Signal::KILL).is_ok()).count()
    }

    fn copies(&self) -> Result<impl Iterator<Item = PathBuf>> {
        let all = walk(&self.at("copies"))?.into_iter();
        Ok(all.filter(|(_, kind)| kind.is_file()).map(|(path, _)| path))
    }

    /// Deletes and truncates some files of the cache; returns their number.
    pub(super) fn damage_copies(&self, rng: &mut Rng) -> Result<usize> {
        let mut count = 0;
        for path in self.copies()? {
            match rng.u8(..4) {
                0 => fs::remove_file(&path).with_context(|| path.display().to_string())?,
                1 => {
                    let file = fs::File::options().write(true).open(&path)?;
                    file.set_len(rng.u64(..=file.metadata()?.len()))?;
                }
                _ => continue,
            }
            count += 1;
        }
        Ok(count)
    }

    /// Lets every user write to the cache, and does there as another user could: changes the bytes of
    /// the copies of files of the tree, not their sizes and times. Returns the number of changed files.
    pub(super) fn open_copies(&self, rng: &mut Rng) -> Result<usize> {
        fs::set_permissions(self.at("copies"), Permissions::from_mode(0o777))?;
        let tree = tree::walk(&self.at("source"))?;
        let of_tree = tree.iter().filter(|(_, kind)| *kind == Kind::File);
        let of_tree = of_tree.map(|(path, _)| fs::read(self.at("source").join(path)));
        let of_tree = of_tree.collect::<std::io::Result<Vec<_>>>()?;
        let mut count = 0;
        for path in self.copies()? {
            let content = fs::read(&path)?;
            if content.is_empty() || !of_tree.contains(&content) {
                continue;
            }
            let file = File::options().write(true).open(&path)?;
            let times = file.metadata()?;
            let other = *choice(b"0123456789", rng);
            file.write_all_at(&vec![other; content.len()], 0)?;
            file.set_times(FileTimes::new().set_modified(times.modified()?))?;
            ensure!(times.size() == content.len() as u64, "{} grows", path.display());
            count += 1;
        }
        Ok(count)
    }

    /// Empties the cache and closes it for other users.
    pub(super) fn renew_copies(&self) -> Result<()> {
        fs::remove_dir_all(self.at("copies"))?;
        self.make_copies()
    }
}

/// Returns the numbers of recorded paths from which programs of a start were answered, by the module's log.
fn served(log: &str) -> Vec<u64> {
    let count = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "trees", _, "served", count, ..] => count.parse().ok(),
            _ => None,
        }
    };
    log.lines().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_recorded_paths_is_read_from_the_log() {
        assert_eq!(served("7\tsearch\t0\t/lib/x\n7\ttrees\t0\tserved\t412\n"), [412]);
        assert_eq!(served("7\tpaths\t0\tserved\t9\n"), [0; 0]);
    }
}
