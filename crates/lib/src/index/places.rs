//! Default paths of indexes.

use std::env;
use std::path::PathBuf;

/// The system's index, used after the user's own.
pub const SYSTEM: &str = "/var/lib/becalm/index.so";

/// Returns the user's index, which `becalm index` writes and other commands look for first; `None`
/// if the environment has no home directory.
pub fn own() -> Option<PathBuf> {
    Some(base("XDG_DATA_HOME", ".local/share")?.join("becalm/index.so"))
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

/// Returns a folder of the XDG base directory specification; a relative one is ignored.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = env::var_os(variable).map(PathBuf::from).filter(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).filter(absolute);
    set.or_else(|| Some(home()?.join(below_home)))
}
