//! The users that becalm trusts: which files it reads as its own, and where it writes.
//!
//! Whoever can write an index, or a directory on the way to it, chooses the libraries of the
//! programs that are started with it ([`open`]). Whoever can put a symbolic link on the way to a file
//! that becalm writes chooses which file is written ([`Rule`]). A path is resolved here, link by
//! link, and then opened in a way that follows no link, so a link that appears meanwhile makes the
//! call fail.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use becalm_core::index::ReadAt;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use thiserror::Error;

use crate::error::words;
use crate::facts::Facts;

/// Links followed on the way to a file (Linux `MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Group and others may write.
const WRITABLE: u32 = 0o022;
/// In a directory with this bit, users can add entries, but remove and rename only their own.
const STICKY: u32 = 0o1000;

/// The reason why a file is not used.
#[derive(Debug, Error)]
pub enum Untrusted {
    /// The file cannot be examined.
    ///
    /// The reason is a part of the text, and not the source of the error: a chain of errors would
    /// have it twice.
    #[error("{}: {}", .path.display(), words(.reason))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// Owner, mode or kind of the file, or of a directory or link on the way to it, forbid to use it.
    #[error("{0}")]
    Refused(String),
}

impl Untrusted {
    /// True if the file or a directory on the way to it does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { reason, .. } if reason.kind() == io::ErrorKind::NotFound)
    }

    fn owner(path: &Path, facts: &Metadata) -> Self {
        Self::Refused(format!("not used: {} belongs to user {}", path.display(), facts.uid()))
    }

    fn io<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> Self {
        |reason| Self::Io { path: path.to_owned(), reason: reason.into() }
    }
}

/// A trusted file, open for reading.
#[derive(Debug)]
pub struct TrustedFile {
    /// The file.
    pub file: File,
    /// The result of `fstat` for the file.
    pub facts: Metadata,
}

impl ReadAt for TrustedFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, at).ok()
    }
}

/// Opens a file if only root and this user can have put it there: checks its owner and mode, and
/// those of every directory and link that lead to it. Never blocks.
///
/// # Errors
/// Returns [`Untrusted`] if it cannot be opened or is not trusted.
pub fn open(path: &Path) -> Result<TrustedFile, Untrusted> {
    let io = Untrusted::io(path);
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    // A file that is opened without following a link needs only `fstat`.
    let (file, way) = match open(OFlags::NONBLOCK | OFlags::NOFOLLOW) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            (open(OFlags::NONBLOCK).map_err(&io)?, Some(path))
        }
        file => (file.map_err(&io)?, path.parent()),
    };
    follow(way.unwrap_or(path), check)?;
    // The state of the open file, which a later change of the path does not affect.
    let facts = file.metadata().map_err(io)?;
    check(path, &facts)?;
    if !facts.is_file() {
        let why = format!("not used: {} is no regular file", path.display());
        return Err(Untrusted::Refused(why));
    }
    Ok(TrustedFile { file, facts })
}

/// Checks that a file is for all users of the machine: only root can have put it there, and
/// everybody may read it.
///
/// # Errors
/// Returns [`Untrusted`] if it is not.
pub fn check_for_all(path: &Path) -> Result<(), Untrusted> {
    let way = follow(path, |path, facts| {
        check(path, facts)?;
        if facts.uid() != 0 {
            return Err(Untrusted::owner(path, facts));
        }
        check_readable(path, facts)
    });
    way.map(drop)
}

/// True if everybody may read a file with an absolute path, or search it if it is a directory.
pub(crate) fn is_for_all(path: &Path) -> bool {
    follow(path, check_readable).is_ok_and(|real| real.exists())
}

/// Checks that everybody may read a file or search a directory.
fn check_readable(path: &Path, facts: &Metadata) -> Result<(), Untrusted> {
    const READ: u32 = 0o004;
    const SEARCH: u32 = 0o001;
    let wanted = if facts.is_dir() { SEARCH } else { READ };
    // The permissions of a symbolic link are not used (symlink(7)).
    if facts.mode() & wanted == 0 && !facts.is_symlink() {
        return Err(Untrusted::Refused(format!("other users may not read {}", path.display())));
    }
    Ok(())
}

/// The rule for the places where becalm may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The user named the path. Links of root and of this user are followed, those of others are
    /// not. Others may be able to write to the directories, as in a project of a group.
    #[default]
    Named,
    /// becalm chose the path: a cache, a request, the default index. It is written to only if nobody
    /// but root and this user could have made the directory, any directory above it, or a link
    /// ([`check`]). In a sticky directory only names that belong to one of the two are used.
    Chosen,
}

impl Rule {
    fn check(self, path: &Path, facts: &Metadata) -> Result<(), Untrusted> {
        match self {
            // A file is replaced, so its owner does not matter.
            Self::Chosen if facts.is_file() => Ok(()),
            Self::Chosen => check(path, facts),
            Self::Named if facts.is_symlink() && !is_of_named_links(facts.uid()) => {
                let (path, owner) = (path.display(), facts.uid());
                let why = format!("not written through {path}, a symbolic link of user {owner}");
                Err(Untrusted::Refused(why))
            }
            Self::Named => Ok(()),
        }
    }

    /// Returns the absolute path without links. The file itself may be missing.
    ///
    /// # Errors
    /// Returns [`Untrusted`] if the rule forbids to write there, or if a directory is missing.
    pub fn real(self, path: &Path) -> Result<PathBuf, Untrusted> {
        let absolute = std::path::absolute(path).map_err(Untrusted::io(path))?;
        follow(&absolute, |path, facts| self.check(path, facts))
    }

    /// Opens or creates a file or directory, following the links that the rule allows. Returns it
    /// with its path.
    ///
    /// # Errors
    /// Returns [`Untrusted`] if it cannot be opened or the rule forbids to write there.
    pub fn open(
        self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<(OwnedFd, PathBuf), Untrusted> {
        if self == Self::Named {
            match open_without_links(path, flags, mode) {
                Err(Errno::LOOP) => {}
                file => return Ok((file.map_err(Untrusted::io(path))?, path.to_owned())),
            }
        }
        let real = self.real(path)?;
        // The descriptor of a pipe has no other path than the link in /proc.
        let file = match is_descriptor(&real) {
            true => fs::open(&real, flags | OFlags::CLOEXEC, mode),
            false => open_without_links(&real, flags, mode),
        };
        Ok((file.map_err(Untrusted::io(path))?, real))
    }
}

/// Creates or empties a file that the user named, as [`File::create`] does.
///
/// # Errors
/// Returns [`Untrusted`] if it cannot be created, or if a link of another user leads to it.
pub fn create(path: &Path) -> Result<File, Untrusted> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    Ok(Rule::Named.open(path, flags, Mode::from_raw_mode(0o666))?.0.into())
}

/// Makes a directory that becalm chose, and those above it. Whatever the umask, only the user may
/// write to them.
///
/// # Errors
/// Returns [`Untrusted`] if it cannot be made, or if [`Rule::Chosen`] forbids to write there.
pub fn make_dirs(path: &Path) -> Result<(), Untrusted> {
    let missing = |dir: &Path| matches!(dir.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound);
    if missing(path) {
        if let Some(above) = path.parent() {
            make_dirs(above)?;
        }
        // Nobody else can write to the directory above.
        match fs::mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Untrusted::io(path)(errno)),
        }
    }
    Rule::Chosen.real(path).map(drop)
}

/// Opens a file or directory. Fails with `ELOOP` if a link is on the way or at the end.
pub(crate) fn open_without_links(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let open = || fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS);
    match rustix::io::retry_on_intr(open) {
        // Linux before 5.6 and some sandboxes.
        Err(Errno::NOSYS | Errno::PERM) => open_by_names(path, flags, mode),
        file => file,
    }
}

/// Does the same with `openat`.
fn open_by_names(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let start = if path.is_absolute() { "/" } else { "." };
    let of_dir = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = fs::open(start, of_dir, Mode::empty())?;
    let mut way: VecDeque<OsString> = names(path).collect();
    while let Some(name) = way.pop_front() {
        let flags = if way.is_empty() { flags } else { of_dir };
        match fs::openat(&dir, &name, flags | OFlags::NOFOLLOW, mode) {
            Ok(file) if way.is_empty() => return Ok(file),
            Ok(below) => dir = below,
            Err(Errno::NOTDIR) => {
                let found = Facts::at(&dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                let is_link = found.file_type == FileType::Symlink;
                return Err(if is_link { Errno::LOOP } else { Errno::NOTDIR });
            }
            Err(errno) => return Err(errno),
        }
    }
    fs::openat(&dir, ".", flags, mode)
}

/// True for a link in /proc that stands for an open file, such as `/proc/self/fd/1`.
fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/proc") && path.parent().is_some_and(|dir| dir.ends_with("fd"))
}

/// Follows an absolute path as the kernel does, from the root on, and checks the file, each
/// directory and each link. Returns the path without links; only its last name may be missing.
fn follow(
    path: &Path,
    check: impl Fn(&Path, &Metadata) -> Result<(), Untrusted>,
) -> Result<PathBuf, Untrusted> {
    let mut way: VecDeque<OsString> = names(path).collect();
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = way.pop_front() {
        // All links before it are resolved, so `..` is the directory above.
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        let facts = match at.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && way.is_empty() => break,
            facts => facts.map_err(Untrusted::io(&at))?,
        };
        if !facts.is_symlink() {
            check(&at, &facts)?;
            continue;
        }
        if way.is_empty() && is_descriptor(&at) {
            check(&at, &facts)?;
            break;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Untrusted::io(path)(Errno::LOOP));
        }
        let (facts, target) = read_link(&at)?;
        check(&at, &facts)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        } else {
            at.pop();
        }
        names(&target).rev().for_each(|name| way.push_front(name));
    }
    Ok(at)
}

/// Returns owner and target of the same link, even if somebody replaces it in between.
fn read_link(path: &Path) -> Result<(Metadata, PathBuf), Untrusted> {
    let io = Untrusted::io(path);
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let link = open_without_links(path, flags, Mode::empty()).map_err(Untrusted::io(path))?;
    let target = fs::readlinkat(&link, "", Vec::new()).map_err(Untrusted::io(path))?;
    let target = OsString::from_vec(target.into_bytes());
    Ok((File::from(link).metadata().map_err(io)?, target.into()))
}

/// Returns the components of a path, without the root and `.`.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Returns the effective user id, read once.
#[must_use]
pub fn user() -> u32 {
    static USER: OnceLock<u32> = OnceLock::new();
    *USER.get_or_init(|| geteuid().as_raw())
}

/// True for the owners of the links that are followed to a named file: root, this user, and whoever
/// owns the root directory, which in a user namespace need not be root.
fn is_of_named_links(owner: u32) -> bool {
    static TOP: OnceLock<u32> = OnceLock::new();
    let top = || Path::new("/").symlink_metadata().map_or(0, |facts| facts.uid());
    owner == 0 || owner == user() || owner == *TOP.get_or_init(top)
}

/// Checks owner and mode of one directory, file or link. The mode of a link is ignored.
///
/// # Errors
/// Returns [`Untrusted`] if another user owns it or may write it.
pub fn check(path: &Path, facts: &Metadata) -> Result<(), Untrusted> {
    if facts.uid() != 0 && facts.uid() != user() {
        return Err(Untrusted::owner(path, facts));
    }
    let is_shared = facts.is_dir() && facts.mode() & STICKY != 0;
    if facts.mode() & WRITABLE != 0 && !facts.is_symlink() && !is_shared {
        let why = format!("not used: others than its owner may write {}", path.display());
        return Err(Untrusted::Refused(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_opens_the_same_file_with_and_without_openat2() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/b/file"), "").unwrap();
        symlink("b", top.join("a/link")).unwrap();
        symlink("b/file", top.join("a/last")).unwrap();
        let id = |file: OwnedFd| File::from(file).metadata().unwrap().ino();
        for name in [
            ".",
            "a",
            "a/b/file",
            "a/b/../b/file",
            "a/link/file",
            "a/last",
            "a/none",
            "none/x",
            "a/b/file/x",
        ] {
            let path = top.join(name);
            let one = open_without_links(&path, OFlags::RDONLY, Mode::empty()).map(id);
            assert_eq!(one, open_by_names(&path, OFlags::RDONLY, Mode::empty()).map(id), "{name}");
        }
        for flags in [OFlags::RDONLY | OFlags::DIRECTORY, OFlags::PATH | OFlags::NOFOLLOW] {
            let path = top.join("a/link");
            let one = open_without_links(&path, flags, Mode::empty()).map(id);
            assert_eq!(one, open_by_names(&path, flags, Mode::empty()).map(id), "{flags:?}");
        }
    }
}
