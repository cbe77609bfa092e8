//! Lists everything below the packages of stores, for the table of paths of an index.
//!
//! A path that is left out of a table is taken for absent, so a package counts as a whole or not at
//! all: if a directory of it cannot be read, changes while it is read, or has changed within the
//! clock's grain, the package is left out and the kernel is asked about it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use becalm_core::index::build::is_in_package;
use becalm_core::index::paths::{
    Kind, Link, MOST_ROOTS, Package, PackageBuilder, Paths, Root, is_odd, root_state, step,
};
use becalm_core::index::{Fingerprint, Time};
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags};
use rustix::io::Errno;
use thiserror::Error;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 8 * 1024;
/// Permission for everybody to search a directory.
const SEARCH_FOR_ALL: u16 = 0o111;
/// Longest path of a store; the module copies it.
const LONGEST_ROOT: usize = 200;
/// A package that changed so many seconds before is read again by an update.
const YOUNG: i64 = 3600;

/// Why a store has no table.
#[derive(Debug, Error)]
pub enum PathTableError {
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The store.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// Its path is too long, or has bytes that `/proc/self/mountinfo` writes otherwise.
    #[error("{}: paths of a store at such a path cannot be indexed", path.display())]
    Unsuitable {
        /// The store.
        path: PathBuf,
    },
    /// There are too many.
    #[error("paths of at most {MOST_ROOTS} stores can be indexed")]
    TooMany,
}

/// Why a package is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// A directory cannot be read, by everybody or by this process.
    Unreadable,
    /// It changed while it was read, or just before, or is being built (`<name>.lock`).
    Changing,
    /// Its names match in another case too.
    Casefold,
    /// It has another file system in it.
    Mounted,
}

impl LeftOut {
    /// Returns the reason in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unreadable => "not everybody can read all of it",
            Self::Changing => "it changed a moment ago, or is being built",
            Self::Casefold => "names match in upper and lower case",
            Self::Mounted => "it is on another file system than its store",
        }
    }
}

/// A table and what was done for it.
#[derive(Debug, Default)]
pub struct PathTable {
    /// The table.
    pub paths: Paths,
    /// Number of packages that were read. Others come from the earlier table.
    pub read: usize,
    /// Number of paths of all packages.
    pub count: usize,
    /// Packages that are not in the table, by path.
    pub left_out: Vec<(BString, LeftOut)>,
}

/// A store to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStore {
    /// The store; links are resolved.
    pub path: PathBuf,
    /// Every directory in it is a package. Otherwise only those named `<hash>-<name>` are.
    pub any_name: bool,
}

/// Lists stores. Packages of `old` that are as they were are not read again.
///
/// # Errors
/// Returns [`PathTableError`] if a store cannot be listed.
pub fn path_table(stores: &[PathStore], old: Option<&Paths>) -> Result<PathTable, PathTableError> {
    let mut roots: Vec<Store> = Vec::new();
    for store in stores {
        let store = Store::open(store)?;
        if roots.iter().all(|known| known.path != store.path) {
            roots.push(store);
        }
    }
    if roots.len() > MOST_ROOTS {
        return Err(PathTableError::TooMany);
    }
    let none = Paths::default();
    let before: FxHashMap<u64, &Package> =
        old.unwrap_or(&none).packages.iter().map(|package| (package.state, package)).collect();
    let walk = Walk { roots: &roots, now: now() };
    let mut table = PathTable::default();
    let mut packages = Vec::new();
    for (root, store) in roots.iter().enumerate() {
        let names = store.packages.par_iter();
        let read: Vec<_> = names.map(|name| walk.package(root, name, &before)).collect();
        for (name, read) in store.packages.iter().zip(read) {
            match read {
                Ok((package, is_new)) => {
                    table.read += usize::from(is_new);
                    packages.push(package);
                }
                Err(Stop::LeftOut(why)) => {
                    table.left_out.push((store.path_of(name), why));
                }
                // A link or a file is no package, and one that went meanwhile is none any more.
                Err(Stop::NoPackage) => {}
            }
        }
    }
    // After everything was read: what came meanwhile is noticed by the module.
    let of_roots = roots.iter().map(|store| store.root(walk.now)).collect();
    table.paths = Paths::new(of_roots, packages);
    table.count = table.paths.len();
    Ok(table)
}

/// Returns true if a table says what [`path_table`] would say, by fingerprints alone.
#[must_use]
pub fn path_table_is_current(paths: &Paths) -> bool {
    let is_same_root = |root: &Root| {
        fingerprint_at(root.path.as_ref()).is_ok_and(|now| {
            let Fingerprint { ino, mtime, ctime, .. } = root.fingerprint;
            (now.ino, now.mtime, now.ctime) == (ino, mtime, ctime)
        })
    };
    paths.roots.iter().all(is_same_root) && !paths.packages.iter().any(|package| package.young)
}

/// Why a package has no table.
enum Stop {
    LeftOut(LeftOut),
    NoPackage,
}

/// A store that is listed.
struct Store {
    path: BString,
    dir: OwnedFd,
    before: Statx,
    /// Names that may be packages.
    packages: Vec<BString>,
}

impl Store {
    fn open(store: &PathStore) -> Result<Self, PathTableError> {
        let failed = |source: io::Error| PathTableError::Read { path: store.path.clone(), source };
        let real = store.path.canonicalize().map_err(failed)?;
        let path = BString::from(real.as_os_str().as_bytes());
        let is_odd = |&byte: &u8| byte <= b' ' || matches!(byte, b'\\' | b'#') || byte >= 0x7f;
        if path.len() < 2 || path.len() > LONGEST_ROOT || path.iter().any(is_odd) {
            return Err(PathTableError::Unsuitable { path: real });
        }
        let failed =
            |errno: Errno| PathTableError::Read { path: real.clone(), source: errno.into() };
        let dir = open_dir(CWD, path.as_bytes()).map_err(failed)?;
        let before = facts(&dir).map_err(failed)?;
        if before.stx_mode & SEARCH_FOR_ALL != SEARCH_FOR_ALL {
            return Err(failed(Errno::ACCESS));
        }
        let names = names_in(&dir).map_err(failed)?;
        let known: FxHashSet<&[u8]> = names.iter().map(|(name, _)| name.as_slice()).collect();
        let is_built = |name: &[u8]| !known.contains(&[name, b".lock"].concat()[..]);
        let is_package = |(name, kind): &&(BString, FileType)| {
            matches!(kind, FileType::Directory | FileType::Unknown)
                && (store.any_name || is_in_package(&[name.as_slice(), b"/"].concat()))
                && !name.starts_with(b".")
                && !is_odd_name(name)
                && is_built(name)
        };
        let packages = names.iter().filter(is_package).map(|(name, _)| name.clone()).collect();
        Ok(Self { path, dir, before, packages })
    }

    fn path_of(&self, name: &BString) -> BString {
        [self.path.as_slice(), b"/", name].concat().into()
    }

    /// A store that changed while it was read has a fingerprint that nothing matches.
    fn root(&self, now: Time) -> Root {
        let before = fingerprint(&self.before);
        let same = facts(&self.dir).is_ok_and(|after| fingerprint(&after) == before);
        let none = Time { sec: i64::MIN, nsec: 0 };
        let fingerprint = if same && before.is_settled(now) {
            before
        } else {
            Fingerprint { mtime: none, ctime: none, ..before }
        };
        Root { path: self.path.clone(), fingerprint: Fingerprint { size: 0, ..fingerprint } }
    }
}

/// A name that the module does not answer for.
fn is_odd_name(name: &[u8]) -> bool {
    is_odd(name) || name.len() > 255
}

struct Walk<'a> {
    roots: &'a [Store],
    now: Time,
}

impl Walk<'_> {
    /// A package, and true if it was read.
    fn package(
        &self,
        root: usize,
        name: &BString,
        before: &FxHashMap<u64, &Package>,
    ) -> Result<(Package, bool), Stop> {
        let store = &self.roots[root];
        let state = step(root_state(store.path.as_ref()), name);
        let dir = open_dir(&store.dir, name).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP | Errno::NOENT => Stop::NoPackage,
            _ => Stop::LeftOut(LeftOut::Unreadable),
        })?;
        let found = facts(&dir).map_err(|_| Stop::LeftOut(LeftOut::Unreadable))?;
        let of_package = Fingerprint { dev: 0, size: 0, ..fingerprint(&found) };
        if let Some(known) = before.get(&state)
            && known.fingerprint == of_package
            && !known.young
            && self.is_of(store, &found)
        {
            return Ok((Package { root: root as u32, ..(*known).clone() }, false));
        }
        let mut one = One { walk: self, store, builder: PackageBuilder::default(), young: false };
        one.directory(dir, state, &mut store.path_of(name)).map_err(Stop::LeftOut)?;
        let package = Package {
            root: root as u32,
            name: name.clone(),
            state,
            fingerprint: of_package,
            young: one.young,
            table: one.builder.finish(),
        };
        Ok((package, true))
    }

    /// True for a directory on the mount of its store.
    fn is_of(&self, store: &Store, found: &Statx) -> bool {
        let place = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor, mount_of(of));
        place(found) == place(&store.before)
    }
}

/// One package that is read.
struct One<'a> {
    walk: &'a Walk<'a>,
    store: &'a Store,
    builder: PackageBuilder,
    young: bool,
}

impl One<'_> {
    /// Adds everything in a directory, which is at `path`.
    fn directory(&mut self, dir: OwnedFd, state: u64, path: &mut BString) -> Result<(), LeftOut> {
        let unreadable = |_: Errno| LeftOut::Unreadable;
        let before = facts(&dir).map_err(unreadable)?;
        if !self.walk.is_of(self.store, &before) {
            return Err(LeftOut::Mounted);
        }
        let stamp = fingerprint(&before);
        if !stamp.is_settled(self.walk.now) {
            return Err(LeftOut::Changing);
        }
        self.young |= stamp.ctime.sec > self.walk.now.sec - YOUNG;
        let names = names_in(&dir).map_err(unreadable)?;
        check_case(&dir, &names)?;
        let length = path.len();
        for (name, kind) in &names {
            path.push(b'/');
            path.extend_from_slice(name);
            self.entry(&dir, step(state, name), name, *kind, path)?;
            path.truncate(length);
        }
        let after = facts(&dir).map_err(unreadable)?;
        if fingerprint(&after) == stamp { Ok(()) } else { Err(LeftOut::Changing) }
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        state: u64,
        name: &BString,
        kind: FileType,
        path: &mut BString,
    ) -> Result<(), LeftOut> {
        let kind = match kind {
            FileType::Unknown => {
                let found = rustix::fs::statat(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
                FileType::from_raw_mode(found.map_err(|_| LeftOut::Unreadable)?.st_mode)
            }
            kind => kind,
        };
        match kind {
            FileType::RegularFile => self.builder.add(state, Kind::File),
            FileType::Symlink => match self.target(dir, name, path) {
                Some((target, package)) => {
                    self.builder.add_link(Link { state, target, package });
                }
                None => self.builder.add(state, Kind::Other),
            },
            FileType::Directory => return self.inner(dir, state, name, path),
            _ => self.builder.add(state, Kind::Other),
        }
        Ok(())
    }

    /// A directory in a directory. One that is mounted, or that not everybody may search, is of
    /// unknown kind.
    fn inner(
        &mut self,
        dir: &OwnedFd,
        state: u64,
        name: &BString,
        path: &mut BString,
    ) -> Result<(), LeftOut> {
        let found = statx_at(dir, name).map_err(|_| LeftOut::Unreadable)?;
        let is_open = found.stx_mode & SEARCH_FOR_ALL == SEARCH_FOR_ALL;
        if !is_open || !self.walk.is_of(self.store, &found) {
            self.builder.add(state, Kind::Other);
            return Ok(());
        }
        self.builder.add(state, Kind::Directory);
        let inner = open_dir(dir, name).map_err(|_| LeftOut::Unreadable)?;
        self.directory(inner, state, path)
    }

    /// State and package of the directory that a link leads to, if no other link is on the way.
    fn target(&self, dir: &OwnedFd, name: &BString, path: &BString) -> Option<(u64, u64)> {
        let text = rustix::fs::readlinkat(dir, name.as_bytes(), Vec::new()).ok()?;
        let target = resolved(path.as_ref(), text.as_bytes());
        let root = self.walk.roots.iter().find(|store| {
            let rest = target.strip_prefix(store.path.as_slice());
            rest.is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
        })?;
        let real = Path::new(std::ffi::OsStr::from_bytes(&target));
        if !real.metadata().is_ok_and(|found| found.is_dir())
            || real.canonicalize().is_ok_and(|canonical| canonical != real)
        {
            return None;
        }
        let mut names = target[root.path.len() + 1..].split(|&byte| byte == b'/');
        let package = step(root_state(root.path.as_ref()), names.next()?);
        let state = names.fold(package, step);
        Some((state, package))
    }
}

/// The path that the text of a link at `path` leads to, by its letters.
fn resolved(path: &BStr, text: &[u8]) -> BString {
    let mut parts: Vec<&[u8]> = Vec::new();
    if !text.starts_with(b"/") {
        let above = path.rfind_byte(b'/').unwrap_or(0);
        parts.extend(path[..above].split(|&byte| byte == b'/').filter(|name| !name.is_empty()));
    }
    for name in text.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    let mut whole = BString::default();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    whole
}

/// Fails for a directory whose names are found in another case too.
fn check_case(dir: &OwnedFd, names: &[(BString, FileType)]) -> Result<(), LeftOut> {
    let known = |name: &[u8]| names.iter().any(|(other, _)| other.as_slice() == name);
    let other_case = |name: &BString| -> Option<BString> {
        let turn = |byte: &u8| {
            if byte.is_ascii_lowercase() {
                byte.to_ascii_uppercase()
            } else {
                byte.to_ascii_lowercase()
            }
        };
        let other: BString = name.iter().map(turn).collect::<Vec<u8>>().into();
        (other != *name && name.is_ascii() && !known(&other)).then_some(other)
    };
    let Some(other) = names.iter().find_map(|(name, _)| other_case(name)) else { return Ok(()) };
    match rustix::fs::statat(dir, other.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        _ => Err(LeftOut::Casefold),
    }
}

fn open_dir(at: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Names and kinds of what is in a directory.
fn names_in(dir: &OwnedFd) -> Result<Vec<(BString, FileType)>, Errno> {
    let mut names = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.into(), entry.file_type()));
        }
    }
    Ok(names)
}

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

fn facts(dir: &OwnedFd) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, WANTED)
}

fn statx_at(dir: &OwnedFd, name: &BString) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)
}

/// The mount that a file is on, 0 if the kernel does not say (before 5.8).
fn mount_of(found: &Statx) -> u64 {
    if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 { found.stx_mnt_id } else { 0 }
}

fn fingerprint(found: &Statx) -> Fingerprint {
    let time = |time: rustix::fs::StatxTimestamp| Time { sec: time.tv_sec, nsec: time.tv_nsec };
    Fingerprint {
        dev: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        ino: found.stx_ino,
        size: 0,
        mtime: time(found.stx_mtime),
        ctime: time(found.stx_ctime),
    }
}

fn fingerprint_at(path: &BStr) -> Result<Fingerprint, Errno> {
    let found = rustix::fs::statx(CWD, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)?;
    Ok(fingerprint(&found))
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Time { sec, nsec: since.subsec_nanos() }
}

#[cfg(test)]
mod tests;
