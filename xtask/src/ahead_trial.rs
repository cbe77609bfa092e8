//! Starts programs by `becalm run` while their records are learned, damaged or full of odd files, and
//! compares each start with a plain one.
//!
//! The programs run as the user `nobody`, as in [`crate::trace_differential`].

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use rustix::fs::{Mode, OFlags, open};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::succeed;
use crate::differential::verdicts;
use crate::trace_differential::choose::{self, Trial};
use crate::trace_differential::run::{Ran, copy_into, open_folder};
use crate::trace_differential::tried::{self, NO_END, Tried};
use crate::user::{NOBODY, is_root};

/// Starts of each program in which its record may be learned.
const LEARNED: usize = 3;
/// Time after each of them, in which another process makes the index of the program.
const PAUSE: Duration = Duration::from_millis(300);
/// Starts of each program with a damaged record.
const DAMAGED: usize = 4;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm under trial.
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 200)]
    programs: usize,
    /// Seed of the sample and of the damage.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs the trial. Returns false if a start differs, or if a FIFO was opened.
///
/// # Errors
/// Returns an error if the trial cannot be set up.
pub fn run(options: &Options) -> Result<bool> {
    ensure!(is_root(), "only root can start programs as nobody");
    let scene = Scene::new(&options.becalm)?;
    let trials = choose::trials(&[], options.programs, options.seed)?;
    let numbered: Vec<(usize, &Trial)> = trials.iter().enumerate().collect();
    let one = |&(at, trial): &(usize, &Trial)| {
        let mut rng = Rng::with_seed(options.seed.wrapping_add(at as u64));
        scene.try_program(trial, &mut rng)
    };
    let results = verdicts(&numbered, one);
    let named = |(trial, result): (&Trial, _)| (trial.group.clone(), trial.line(), result);
    let (counts, is_clean) = tried::print(trials.iter().zip(results).map(named));
    let learned = counts.get("same, with a record");
    ensure!(learned * 10 > trials.len(), "few programs have a record: {learned}");
    Ok(is_clean)
}

/// The files of the trial.
struct Scene {
    dir: TempDir,
    becalm: PathBuf,
    /// A file system without a free byte, where a record cannot be written.
    full: PathBuf,
    fifo: PathBuf,
}

impl Scene {
    fn new(becalm: &Path) -> Result<Self> {
        let dir = open_folder()?;
        let copy = copy_into(dir.path(), becalm)?;
        let fifo = dir.path().join("fifo");
        succeed(Command::new("mkfifo").args(["-m", "666"]).arg(&fifo))?;
        let full = dir.path().join("full");
        succeed(Command::new("sh").args(["-euc", FULL, "sh"]).arg(&full))?;
        // Nobody but root and nobody may be able to make files on the way to a record.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self { dir, becalm: copy, full, fifo })
    }

    fn try_program(&self, trial: &Trial, rng: &mut Rng) -> Result<Tried> {
        let Some(plain) = self.plain(trial)? else { return Ok(NO_END) };
        let home = tempfile::tempdir_in(self.dir.path())?;
        chown(home.path(), Some(NOBODY), Some(NOBODY))?;
        let mut has_record = false;
        let mut differing = None;
        for nth in 0..LEARNED + DAMAGED + 1 {
            let (what, home) = match nth.checked_sub(LEARNED) {
                None => ("learning".to_owned(), home.path()),
                Some(DAMAGED) => ("a full disk".to_owned(), self.full.as_path()),
                Some(_) => {
                    let records = records(home.path());
                    has_record |= !records.is_empty();
                    let damage = records.iter().map(|path| self.damage(path, rng));
                    (damage.collect::<Result<Vec<String>>>()?.join(", "), home.path())
                }
            };
            let ran = self.by_becalm(trial, home)?;
            self.no_reader()?;
            if nth < LEARNED {
                thread::sleep(PAUSE);
            }
            if ran.as_ref() != Some(&plain) {
                differing = differing.or(Some((what, ran)));
            }
        }
        match differing {
            None if has_record => Ok(("same, with a record", None)),
            None => Ok(("same, without a record", None)),
            Some((what, ran)) => {
                let what = || format!("{what}: {ran:?}, plain {plain:?}");
                tried::differs(&plain, 3, || self.plain(trial), what)
            }
        }
    }

    fn plain(&self, trial: &Trial) -> Result<Option<Ran>> {
        self.start(trial, &[], self.dir.path())
    }

    fn by_becalm(&self, trial: &Trial, home: &Path) -> Result<Option<Ran>> {
        let [run, quiet, end] = ["run", "--quiet", "--"].map(OsStr::new);
        self.start(trial, &[self.becalm.as_os_str(), run, quiet, end], home)
    }

    fn start(&self, trial: &Trial, by: &[&OsStr], home: &Path) -> Result<Option<Ran>> {
        trial.start(&[], &[format!("XDG_CACHE_HOME={}", home.display())], by)
    }

    /// Damages a record in some way, and returns a description.
    fn damage(&self, record: &Path, rng: &mut Rng) -> Result<String> {
        let mut bytes = fs::read(record)?;
        let what = match rng.u8(0..8) {
            0 => {
                bytes.truncate(rng.usize(0..=bytes.len()));
                "cut"
            }
            1 => {
                for _ in 0..rng.usize(1..20) {
                    let at = rng.usize(0..bytes.len().max(1));
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte = rng.u8(..));
                }
                "other bytes"
            }
            2 => {
                bytes = (0..rng.usize(0..100_000)).map(|_| rng.u8(..)).collect();
                "noise"
            }
            3 => {
                bytes = changed(&bytes, |header, _| header["schema"] = json!("becalm/record/2"));
                "another version"
            }
            4 => {
                let many = vec!["[0,1,3]"; 1_000_000].join(",");
                let file = format!(
                    "\n{{\"path\":\"/bin\",\"inode\":1,\"size\":1,\"changed\":[0,0],\"ranges\":[{many}]}}"
                );
                bytes.extend_from_slice(file.as_bytes());
                "a million ranges"
            }
            5 => {
                bytes = changed(&bytes, |_, files| {
                    files.iter_mut().for_each(|file| file["inode"] = json!(1));
                });
                "changed files"
            }
            6 => {
                bytes = changed(&bytes, |header, files| self.make_odd(header, files));
                "odd files"
            }
            _ => {
                // A process that learns may still write the record.
                while let Err(error) = fs::create_dir(record) {
                    ensure!(error.kind() == ErrorKind::AlreadyExists, error);
                    fs::remove_file(record)?;
                }
                return Ok("a directory".to_owned());
            }
        };
        fs::write(record, bytes)?;
        Ok(what.to_owned())
    }

    /// Lets a record name a FIFO, devices, a directory and a file of another user, with their states, in
    /// place of its first files.
    fn make_odd(&self, header: &mut Value, files: &mut [Value]) {
        let odd = ["/dev/zero", "/dev/tty", "/usr/bin", "/etc/shadow", "/proc/self/mem"];
        let odd = std::iter::once(self.fifo.as_path()).chain(odd.map(Path::new));
        let mut paths = Vec::new();
        for (file, path) in files.iter_mut().zip(odd) {
            let Ok(facts) = path.symlink_metadata() else { continue };
            *file = json!({"path": path, "inode": facts.ino(), "size": 1 << 20,
                           "changed": [facts.mtime(), facts.mtime_nsec()], "ranges": [[0, 200, 3]]});
            paths.push(json!([path, 0]));
        }
        paths.truncate(3);
        header["samples"] = json!(paths);
    }

    /// Checks that no process has the FIFO open for reading.
    fn no_reader(&self) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match open(&self.fifo, flags, Mode::empty()) {
            Err(rustix::io::Errno::NXIO) => Ok(()),
            other => bail!("a FIFO of a record was opened: {other:?}"),
        }
    }
}

/// Returns a record with a changed header and changed files; another one if it is damaged.
fn changed(bytes: &[u8], change: impl FnOnce(&mut Value, &mut [Value])) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut lines: Vec<Value> = lines.filter(Value::is_object).collect();
    if lines.is_empty() {
        lines.push(json!({"schema": "becalm/record/1"}));
    }
    let (header, files) = lines.split_at_mut(1);
    change(&mut header[0], files);
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n").into_bytes()
}

fn records(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.join("becalm/programs")).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.is_file() && path.extension().is_some_and(|it| it == "pages"))
        .collect()
}

/// Makes a file system of 64 KiB that is full at the path $1.
const FULL: &str = r#"
mkdir "$1"
mount -t tmpfs -o size=64k,mode=755,uid=65534,gid=65534 becalm "$1"
# The file system ends the write.
head -c 1M /dev/zero 2>/dev/null >"$1/filler" || true"#;

impl Drop for Scene {
    fn drop(&mut self) {
        // A process that learns may still have its directory open.
        let _ = Command::new("umount").arg("-l").arg(&self.full).status();
    }
}
