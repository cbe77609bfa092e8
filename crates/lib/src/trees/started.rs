//! The programs that a command starts, or becomes: the Python of a shell script. They are not in the index of
//! the command, so the module does not see what they look up. The next start's index has them.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::child::family_of;
use rustc_hash::FxHashSet;

use crate::records;
use crate::run::program::{self, Program, Start};
use crate::trees::record::{Header, Record, place};
use crate::trees::{folder, is_running};

/// The least and the longest time between two looks, which is a tenth of the time since the start. A program
/// that is there at two of them is worth its place.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// The time for which a command is watched.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum number of programs of a command, and of processes that are looked at.
pub(super) const MOST_PROGRAMS: usize = 16;
const MOST_PROCESSES: usize = 256;

/// Watches which programs a process starts, and adds them to the record of its command.
pub(super) fn watch(process: u32, command: &Path) {
    let began = Instant::now();
    let (mut seen, mut known) = (FxHashSet::default(), FxHashSet::default());
    let own = OnceCell::new();
    while began.elapsed() < LONGEST {
        let [least, most] = PAUSE;
        thread::sleep((began.elapsed() / 10).clamp(least, most));
        if !is_running(process) {
            return;
        }
        let mut news = Vec::new();
        for it in family_of(process, MOST_PROCESSES).into_iter().filter(|&it| !seen.insert(it)) {
            let Ok(real) = fs::read_link(format!("/proc/{it}/exe")) else { continue };
            let own = own.get_or_init(|| program_of(command));
            if own.as_ref() != Some(&real) && known.insert(real.clone()) {
                news.push(named(it, &real).unwrap_or(real));
            }
        }
        if !news.is_empty() {
            add(command, &news);
        }
    }
}

/// Returns the program that a command is.
fn program_of(command: &Path) -> Option<PathBuf> {
    let found = program::find(command.as_os_str()).ok()?;
    Program::look(program::behind_env(found).0).ok().map(|program| program.real)
}

/// Returns the absolute path by which a process's program was called, if it leads to the program: a virtual
/// environment's link to a Python says where its packages are.
pub(super) fn named(process: u32, real: &Path) -> Option<PathBuf> {
    let at = |name: &str| format!("/proc/{process}/{name}");
    let first = |bytes: Vec<u8>| bytes.split(|&byte| byte == 0).next().map(<[u8]>::to_vec);
    let called = first(fs::read(at("cmdline")).ok()?)?;
    let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|found| found == real);
    if called.contains(&b'/') {
        let path = fs::read_link(at("cwd")).ok()?.join(OsStr::from_bytes(&called));
        return Some(path).filter(is_it);
    }
    let environment = fs::read(at("environ")).ok()?;
    let path = environment.split(|&byte| byte == 0).find_map(|it| it.strip_prefix(b"PATH="))?;
    let dirs = std::env::split_paths(OsStr::from_bytes(path)).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(OsStr::from_bytes(&called))).find(|path| path.exists()).filter(is_it)
}

/// Returns a program's path without links before its name; `None` if no index can have it.
fn indexable(path: &Path) -> Option<String> {
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    let start = Program::look(program::find(path.as_os_str()).ok()?).ok()?.start;
    matches!(start, Start::Loader(_)).then(|| path.to_str().map(ToOwned::to_owned))?
}

/// Adds programs to the record of a command: those that two starts have started. Others have names that no
/// later start will use.
fn add(command: &Path, news: &[PathBuf]) -> Option<()> {
    let news: Vec<String> = news.iter().filter_map(|path| indexable(path)).collect();
    let place = place(&folder::made()?, command);
    let _lock = place.lock().ok()??;
    let mut record = Record::at(&place).unwrap_or_default();
    let Header { programs, seen, .. } = &mut record.header;
    let mut is_changed = false;
    for path in news {
        if programs.contains(&path) {
            continue;
        }
        match seen.iter().position(|it| *it == path) {
            None => {
                let extra = (seen.len() + 1).saturating_sub(MOST_PROGRAMS);
                seen.drain(..extra);
                seen.push(path);
            }
            Some(at) if programs.len() < MOST_PROGRAMS => programs.push(seen.remove(at)),
            Some(_) => continue,
        }
        is_changed = true;
    }
    if is_changed {
        record.header.command = command.to_string_lossy().into_owned();
        record.header.learned = records::now();
        record.finish(place.folder());
        let _ = record.write(&place);
    }
    Some(())
}
