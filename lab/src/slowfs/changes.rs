//! Changes through the mount (`--writable`), each made in the source before it is answered.
//!
//! New files have the owner of the server. Renames that must not replace a file, or that exchange two
//! (`renameat2`), are rejected, as on many network file systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fuser::{Errno, TimeOrNow};
use nix::fcntl::AT_FDCWD;
use nix::libc;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::faults::Refused;

/// Makes an empty regular file at a path of the source. The kernel has applied the caller's umask to the mode.
pub(super) fn make_file(path: &Path, mode: u32) -> Result<(), Refused> {
    if mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Errno::EPERM.into());
    }
    fs::File::create_new(path)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?)
}

/// Makes a directory at a path of the source.
pub(super) fn make_directory(path: &Path, mode: u32) -> Result<(), Refused> {
    fs::create_dir(path)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?)
}

/// Changes attributes of a file of the source: mode, owner and group, size, and the times of the last access
/// and of the last change of content. `None` keeps one.
pub(super) fn change(
    path: &Path,
    mode: Option<u32>,
    [user, group]: [Option<u32>; 2],
    size: Option<u64>,
    times: [Option<TimeOrNow>; 2],
) -> Result<(), Refused> {
    if let Some(size) = size {
        fs::File::options().write(true).open(path)?.set_len(size)?;
    }
    if user.or(group).is_some() {
        lchown(path, user, group)?;
    }
    if let Some(mode) = mode {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
    }
    if times.iter().any(Option::is_some) {
        let [accessed, modified] = times.map(time);
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
