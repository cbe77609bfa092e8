//! The folder of records and copies: on a disk of this machine or in its memory, for this user alone.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use becalm_host::trust;
use rustix::fs::statvfs;

use crate::index::places::directory;
use crate::index::trust::Rule;
use crate::trees::is_slow;

/// The variable with the folder.
pub(crate) const VARIABLE: &str = "BECALM_CACHE";
/// The variable with a folder in memory, which ends with the session.
pub(super) const SESSION: &str = "XDG_RUNTIME_DIR";
/// Bytes that must be free where a folder is made.
const ROOM: u64 = 512 << 20;

/// Returns the folder, if there is one.
pub(crate) fn existing() -> Option<PathBuf> {
    places().into_iter().find(|place| is_usable(place))
}

/// Returns the folder; makes it in the first place that is local and has room.
pub(crate) fn made() -> Option<PathBuf> {
    existing().or_else(|| places().into_iter().find(|place| make(place)))
}

/// Returns the folder, if there is one, that does not end with the session.
pub(crate) fn existing_lasting() -> Option<PathBuf> {
    lasting_places().into_iter().find(|place| is_usable(place))
}

/// Returns a folder in one that does not end with the session; makes both.
pub(crate) fn lasting(name: &str) -> Option<PathBuf> {
    let made = || lasting_places().into_iter().find(|place| make(place));
    own(&existing_lasting().or_else(made)?.join(name))
}

fn lasting_places() -> Vec<PathBuf> {
    let of_session = env::var_os(SESSION).map(PathBuf::from);
    let lasts = |place: &PathBuf| of_session.as_ref().is_none_or(|it| !place.starts_with(it));
    places().into_iter().filter(lasts).collect()
}

/// Makes a directory that nobody else can read or write, unless there is one, and those above it.
pub(super) fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns a directory of this user that nobody else can read or write, which is made if it is missing.
pub(crate) fn own(folder: &Path) -> Option<PathBuf> {
    // An existing one is as good.
    let _ = make_private(folder);
    is_usable(folder).then(|| folder.to_owned())
}

/// Removes the files of a folder, and the folder, if it is there.
///
/// # Errors
/// Returns the first error, when all others are removed.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    let files = folder.read_dir().into_iter().flatten().flatten();
    let removed: Vec<_> = files.map(|file| fs::remove_file(file.path())).collect();
    let emptied = unless(io::ErrorKind::NotFound, fs::remove_dir(folder));
    removed.into_iter().chain([emptied]).collect()
}

/// Returns the error of a call, unless it is of this kind.
pub(super) fn unless(kind: io::ErrorKind, done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == kind { Ok(()) } else { Err(error) })
}

/// Returns the bytes that are free for this user.
pub(crate) fn free(folder: &Path) -> u64 {
    statvfs(folder).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

/// Returns the places for a folder, in order. A named one is the only one.
fn places() -> Vec<PathBuf> {
    directory(VARIABLE).map_or_else(default_places, |named| vec![named])
}

fn default_places() -> Vec<PathBuf> {
    let name = format!("becalm-{}", trust::user());
    let of_session = directory(SESSION).map(|it| it.join("becalm"));
    let others = ["/var/tmp", "/tmp"].map(|it| Path::new(it).join(&name));
    of_session.into_iter().chain(others).collect()
}

/// True for a folder that becalm makes if none is named.
pub(crate) fn is_default(folder: &Path) -> bool {
    default_places().iter().any(|place| place == folder)
}

/// True for a directory of this user that nobody else can read or write.
fn is_usable(folder: &Path) -> bool {
    let is_own = folder.symlink_metadata().is_ok_and(|facts| {
        facts.is_dir() && facts.uid() == trust::user() && facts.mode() & 0o077 == 0
    });
    is_own && Rule::Chosen.real(folder).is_ok_and(|real| real == folder)
}

/// Makes a folder, unless it is there: another start may have made it just now.
pub(super) fn make(folder: &Path) -> bool {
    let Some(above) = folder.parent() else { return false };
    !is_slow(above) && free(above) >= ROOM && own(folder).is_some()
}
