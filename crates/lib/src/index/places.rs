//! Default paths of indexes.

use std::env;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use becalm_host::write::{WriteOptions, Writer};
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::index::trust::{self, Rule};

/// The system's index, used after the user's own.
pub const SYSTEM: &str = "/var/lib/becalm/index.so";

/// Returns the user's index, which `becalm index` writes and other commands look for first; `None`
/// if the environment has no home directory.
pub fn own() -> Option<PathBuf> {
    Some(data()?.join("becalm/index.so"))
}

/// Returns the default index: the user's, else the system's.
pub fn found() -> Option<PathBuf> {
    of_sessions().find(|path| path.exists())
}

/// Returns the user's index and the system's, in the order of their use.
pub fn of_sessions() -> impl Iterator<Item = PathBuf> {
    [own(), Some(PathBuf::from(SYSTEM))].into_iter().flatten()
}

/// Returns the folder of indexes that were made for single programs.
pub fn cache() -> Option<PathBuf> {
    Some(base("XDG_CACHE_HOME", ".cache")?.join("becalm/programs"))
}

/// The last names of the path of a directory of links to the starter (`becalm on`), the user's or the system's.
pub(crate) const LINKS: &str = "becalm/on/bin";

/// Returns the folder of the user's programs that are switched on.
pub(crate) fn switched_on() -> Option<PathBuf> {
    Some(base("XDG_STATE_HOME", ".local/state")?.join("becalm/on"))
}

/// Returns the folder of the user's data.
pub(crate) fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// Returns the folder of the user's configuration.
pub(crate) fn config() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// Returns the home directory of the environment, or root's.
pub(crate) fn home_dir() -> Option<PathBuf> {
    Some(home(&directory("HOME")?))
}

/// Returns the home directory of the environment, if root's is used instead because it belongs to another user.
#[must_use]
pub fn unused_home() -> Option<PathBuf> {
    directory("HOME").filter(|named| home(named) != *named)
}

/// True if nothing on the file system of a path can be executed or mapped as code.
pub(crate) fn is_noexec(path: &Path) -> bool {
    let system = path.ancestors().find_map(|there| statvfs(there).ok());
    system.is_some_and(|it| it.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Checks that a loader can map an index or program at a path.
///
/// # Errors
/// Returns an error if its file system does not allow it.
pub(crate) fn check_exec(path: &Path) -> Result<()> {
    ensure!(!is_noexec(path), "{}: on a file system that is mounted noexec", path.display());
    Ok(())
}

/// Returns the name of a file in that folder, from a program and a hash of what else it is for.
pub(crate) fn cached_name(program: &Path, hash: u64, ending: &str) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).take(80).collect();
    format!("{name}-{hash:016x}.{ending}")
}

/// Returns the files in such a folder whose names have an ending.
pub(crate) fn files_ending(folder: &Path, ending: &str) -> impl Iterator<Item = PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(move |path| path.extension().is_some_and(|it| it == ending))
}

/// Removes the least recently used of these files, of which each counts so much, beyond a number; the newest one is
/// kept in any case.
pub(crate) fn keep_newest(
    files: impl IntoIterator<Item = PathBuf>,
    counts: fn(&Metadata) -> u64,
    most: u64,
    remove: impl Fn(&Path),
) {
    let used = |path: PathBuf| {
        let facts = path.symlink_metadata().ok()?;
        // A file of the future is the oldest.
        let time = facts.modified().ok().filter(|time| time.elapsed().is_ok());
        Some((time, counts(&facts), path))
    };
    let mut files: Vec<_> = files.into_iter().filter_map(used).collect();
    files.sort();
    let mut all = 0;
    for (place, (_, count, path)) in files.iter().rev().enumerate() {
        all += count;
        if place > 0 && all > most {
            remove(path);
        }
    }
}

/// Returns the writer of the folders of indexes, records and copies. A power failure costs an index or a
/// record, no more.
pub(crate) fn cache_writer() -> Writer {
    let options = WriteOptions { no_sync: true, ..WriteOptions::default() };
    Writer::under(Rule::Chosen, options)
}

/// Returns a folder of the XDG base directory specification; a relative one is ignored. Root with
/// the environment of another user (`sudo -E`, `su -m`) has its own: that user could otherwise
/// choose what root writes, and would have files of root in the home directory.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    match directory(variable).filter(|dir| !(is_root() && is_of_other(dir))) {
        Some(dir) => Some(dir),
        None => Some(home(&directory("HOME")?).join(below_home)),
    }
}

/// Returns the absolute path in a variable of the environment.
pub(crate) fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the home directory of the environment, or root's. Looks at it once.
fn home(named: &Path) -> PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    let is_others = || is_root() && is_of_other(named);
    HOME.get_or_init(|| if is_others() { "/root".into() } else { named.to_owned() }).clone()
}

fn is_root() -> bool {
    trust::user() == 0
}

/// True if the directory, or the one that it would be made in, belongs to another user than root.
fn is_of_other(path: &Path) -> bool {
    let owner = |dir: &Path| dir.metadata().ok().map(|facts| facts.uid());
    path.ancestors().find_map(owner).is_some_and(|owner| owner != 0)
}
