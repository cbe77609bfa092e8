//! Changes through the mount (`--writable`), each made in the source before it is answered.
//!
//! New files have the owner of the server. Renames that must not replace a file, or that exchange two
//! (`renameat2`), are rejected, as on many network file systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::{Errno, TimeOrNow};
use nix::fcntl::AT_FDCWD;
use nix::libc;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::faults::Refused;

/// A new name in a directory.
pub(super) enum Made<'a> {
    /// An empty regular file with a mode.
    File(u32),
    /// A directory with a mode.
    Directory(u32),
    /// A symbolic link with a target.
    Link(&'a Path),
    /// Another name of the file at a path.
    Name(&'a Path),
}

/// New attributes of a file; `None` keeps one.
pub(super) struct Changed {
    pub(super) mode: Option<u32>,
    pub(super) owner: [Option<u32>; 2],
    pub(super) size: Option<u64>,
    /// The times of the last access and of the last change of content.
    pub(super) times: [Option<TimeOrNow>; 2],
}

/// Makes a file, a directory or a link at a path of the source.
pub(super) fn make(path: &Path, made: Made<'_>) -> Result<(), Refused> {
    match made {
        Made::File(mode) => {
            if mode & libc::S_IFMT != libc::S_IFREG {
                return Err(Errno::EPERM.into());
            }
            fs::File::create_new(path)?;
            // The kernel has applied the caller's umask.
            fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
        }
        Made::Directory(mode) => {
            fs::create_dir(path)?;
            fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
        }
        Made::Link(target) => symlink(target, path)?,
        Made::Name(file) => fs::hard_link(file, path)?,
    }
    Ok(())
}

/// Changes attributes of a file of the source.
pub(super) fn change(path: &Path, changed: Changed) -> Result<(), Refused> {
    if let Some(size) = changed.size {
        fs::File::options().write(true).open(path)?.set_len(size)?;
    }
    let [user, group] = changed.owner;
    if user.or(group).is_some() {
        lchown(path, user, group)?;
    }
    if let Some(mode) = changed.mode {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
    }
    if changed.times.iter().any(Option::is_some) {
        let [accessed, modified] = changed.times.map(time);
        utimensat(AT_FDCWD, path, &accessed, &modified, UtimensatFlags::NoFollowSymlink)
            .map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Lets paths at and below a renamed one follow it.
pub(super) fn follow<'a>(paths: impl Iterator<Item = &'a mut PathBuf>, old: &Path, new: &Path) {
    for path in paths {
        if *path == old {
            *path = new.to_owned();
        } else if let Ok(rest) = path.strip_prefix(old) {
            *path = new.join(rest);
        }
    }
}

/// Returns a time as `utimensat` takes it.
fn time(wanted: Option<TimeOrNow>) -> TimeSpec {
    let at = match wanted {
        None => return TimeSpec::UTIME_OMIT,
        Some(TimeOrNow::Now) => return TimeSpec::UTIME_NOW,
        Some(TimeOrNow::SpecificTime(at)) => at,
    };
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => TimeSpec::from_duration(after),
        Err(before) => -TimeSpec::from_duration(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_nanoseconds_of_a_time_before_1970_are_not_negative() {
        let old = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
        let old = time(Some(TimeOrNow::SpecificTime(old)));
        assert_eq!((old.tv_sec(), old.tv_nsec()), (-2, 500_000_000));
    }

    #[test]
    fn paths_below_a_renamed_directory_follow_it() {
        let mut paths = ["a", "a/b", "ab", "c/a"].map(PathBuf::from);
        follow(paths.iter_mut(), Path::new("a"), Path::new("d/e"));
        assert_eq!(paths, ["d/e", "d/e/b", "ab", "c/a"].map(PathBuf::from));
    }
}
