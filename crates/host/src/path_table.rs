//! Lists everything below the packages of stores, for the table of paths of an index.
//!
//! A path that a table lacks counts as absent, so a package is in the table as a whole or not at
//! all. If a directory of it cannot be read, changes while it is read, or has changed within the
//! clock's grain, the package is left out and the kernel resolves its paths.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use becalm_core::index::build::is_in_package;
use becalm_core::index::paths::{
    Kind, Link, MOST_ROOTS, Package, PackageBuilder, Paths, Root, is_odd, root_state, step,
};
use becalm_core::index::{Fingerprint, Time};
use becalm_core::path;
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::HostError;
use crate::facts::Facts;
use crate::fingerprint::now;
use crate::index_store::{OsFingerprints, fingerprint_of};
use crate::path::{entries_of, is_case_sensitive, path_bytes, path_of};

/// Permission for everybody to search a directory.
const SEARCH_FOR_ALL: u16 = 0o111;
/// Longest path of a store; the module copies it.
const LONGEST_ROOT: usize = 200;
/// The age in seconds below which a package may still be being installed in place. The fingerprint
/// of its own directory does not show what is added deeper down, so that an update reads the
/// package again.
const YOUNG: i64 = 3600;

/// The reason why a package is not in the table, as text for the user.
pub type LeftOut = &'static str;
/// A directory cannot be read, by everybody or by this process.
const UNREADABLE: LeftOut = "not everybody can read all of it";
/// It changed while it was read, or just before, or is being built (`<name>.lock`). An update takes it in once that
/// is over.
pub const CHANGING: LeftOut = "it changed a moment ago, or is being built";
const CASEFOLD: LeftOut = "names match in upper and lower case";
/// It has another file system in it.
const MOUNTED: LeftOut = "it is on another file system than its store";
const TIMES: LeftOut = "its file system may not show changes in the times of directories";

/// A table, and counts of the work for it.
#[derive(Debug, Default)]
pub struct PathTable {
    /// The table.
    pub paths: Paths,
    /// Number of packages that were read. Others come from the earlier table.
    pub read: usize,
    /// Packages that are not in the table, by path.
    pub left_out: Vec<(BString, LeftOut)>,
}

/// A store to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStore {
    /// The store; links are resolved.
    pub path: PathBuf,
    /// Its packages.
    pub packages: Packages,
}

/// The packages of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packages {
    /// The directories named `<hash>-<name>`.
    Hashed,
    /// Every directory.
    Any,
    /// The directories with these names.
    Chosen(Vec<BString>),
}

/// Lists stores. Packages of `old` that are as they were are not read again. `trusted` has the
/// directories whose times show each change, although their file system is not known for it.
///
/// # Errors
/// Returns an error if a store cannot be listed, if its path is too long or has bytes that
/// `/proc/self/mountinfo` writes otherwise, or if there are too many stores.
pub fn path_table(
    stores: &[PathStore],
    old: Option<&Paths>,
    trusted: &[PathBuf],
) -> Result<PathTable, HostError> {
    let fingerprints = OsFingerprints::trusting(trusted);
    let mut table = PathTable::default();
    let mut roots: Vec<Store> = Vec::new();
    for store in stores {
        let store = Store::open(store, &fingerprints)?;
        if store.volume == 0 {
            table.left_out.push((store.path, TIMES));
        } else if roots.iter().all(|known| known.path != store.path) {
            roots.push(store);
        }
    }
    if roots.len() > MOST_ROOTS {
        let reason = format!("paths of at most {MOST_ROOTS} stores can be indexed");
        return Err(HostError::unusable(path_of(&roots[MOST_ROOTS].path), reason));
    }
    // The first one that a path is below counts.
    roots.sort_by_key(|root| std::cmp::Reverse(root.path.len()));
    let none = Paths::default();
    let before: FxHashMap<u64, &Package> =
        old.unwrap_or(&none).packages.iter().map(|package| (package.state, package)).collect();
    let walk = Walk { roots: &roots, now: now() };
    let mut packages = Vec::new();
    for (root, store) in roots.iter().enumerate() {
        let names = store.packages.par_iter();
        let read: Vec<_> = names.map(|name| walk.package(root, name, &before)).collect();
        let built = store.built.iter().map(|_| Err(CHANGING));
        let names = store.packages.iter().chain(&store.built);
        for (name, read) in names.zip(read.into_iter().chain(built)) {
            match read {
                Ok(Some((package, is_new))) => {
                    table.read += usize::from(is_new);
                    packages.push(package);
                }
                // A link, a file or a removed package is not a package.
                Ok(None) => {}
                Err(why) => {
                    table.left_out.push((store.path_of(name), why));
                    // By its record, an update knows that it is missing.
                    if why == CHANGING {
                        let state = step(root_state(store.path.as_ref()), name);
                        packages.push(Package::left_out(root as u32, name.clone(), state));
                    }
                }
            }
        }
    }
    // The roots are compared after all packages were read. If a store changed meanwhile, the
    // fingerprint of its root never matches.
    let of_roots = roots.iter().map(|store| store.root(walk.now)).collect();
    table.paths = Paths::new(of_roots, packages);
    Ok(table)
}

/// Returns true if [`path_table`] would return the same table. It is judged by fingerprints, and of
/// packages that were young by reading them again.
#[must_use]
pub fn path_table_is_current(paths: &Paths) -> bool {
    let fingerprints = OsFingerprints::default();
    let now = |path: &BStr| fingerprint_at(&fingerprints, path).ok();
    let is_same_root = |root: &Root| {
        let (now, known) = (now(root.path.as_ref()), root.fingerprint);
        now.is_some_and(|now| now == known || root.is_chosen && now.volume == known.volume)
    };
    let is_same_package = |package: &Package| {
        let root = paths.roots.get(package.root as usize).filter(|root| root.is_chosen);
        let now = |root: &Root| now(path_in(&root.path, &package.name).as_ref());
        let is_same = |now| Fingerprint { volume: 0, ..now } == package.fingerprint;
        root.is_none_or(|root| now(root).is_some_and(is_same))
    };
    paths.packages.iter().all(Package::is_read)
        && paths.roots.iter().all(is_same_root)
        && paths.packages.iter().all(is_same_package)
        && young_are_as_they_were(paths)
}

/// Reads the packages that were young again, and compares them.
fn young_are_as_they_were(paths: &Paths) -> bool {
    let young: Vec<&Package> = paths.packages.iter().filter(|package| package.young).collect();
    if young.is_empty() {
        return true;
    }
    let open = |(number, root): (usize, &Root)| {
        let of_root = young.iter().filter(|package| package.root as usize == number);
        let packages = Packages::Chosen(of_root.map(|package| package.name.clone()).collect());
        Store::open(&PathStore { path: path_of(&root.path), packages }, &OsFingerprints::default())
    };
    let roots: Result<Vec<Store>, _> = paths.roots.iter().enumerate().map(open).collect();
    let Ok(roots) = roots else { return false };
    let (walk, nothing) = (Walk { roots: &roots, now: now() }, FxHashMap::default());
    young.par_iter().all(|known| {
        let store = &roots[known.root as usize];
        let read = walk.package(known.root as usize, &known.name, &nothing);
        let is_same =
            |now: &Package| (&now.table, now.fingerprint) == (&known.table, known.fingerprint);
        store.packages.contains(&known.name)
            && read.is_ok_and(|read| read.is_some_and(|(now, _)| is_same(&now)))
    })
}

/// The path of a package.
fn path_in(root: &BString, name: &BString) -> BString {
    [root.as_slice(), b"/", name].concat().into()
}

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

fn open_dir(at: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    // If a link replaces a package, it must not lead out of the store.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn facts(dir: &OwnedFd) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, WANTED)
}

fn statx_at(dir: &OwnedFd, name: &BString) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)
}

fn fingerprint_at(fingerprints: &OsFingerprints, path: &BStr) -> Result<Fingerprint, Errno> {
    let found = rustix::fs::statx(CWD, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)?;
    Ok(Fingerprint { size: 0, ..fingerprints.of(path, &found) })
}

/// The mount that a file is on, 0 if the kernel does not say (before 5.8).
fn mount_of(found: &Statx) -> u64 {
    if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 { found.stx_mnt_id } else { 0 }
}

/// A store that is listed.
struct Store {
    path: BString,
    is_chosen: bool,
    dir: OwnedFd,
    before: Statx,
    /// The number of its file system; 0 if the times of directories prove nothing there.
    volume: u64,
    /// Names that may be packages.
    packages: Vec<BString>,
    /// Names of packages that are being built.
    built: Vec<BString>,
}

impl Store {
    fn open(store: &PathStore, fingerprints: &OsFingerprints) -> Result<Self, HostError> {
        let real = store.path.canonicalize();
        let real = real.map_err(|source| HostError::Read { path: store.path.clone(), source })?;
        let path = path_bytes(&real);
        let is_strange = |&byte: &u8| byte <= b' ' || matches!(byte, b'\\' | b'#') || byte >= 0x7f;
        if path.len() < 2 || path.len() > LONGEST_ROOT || path.iter().any(is_strange) {
            return Err(HostError::unusable(
                real,
                "paths of a store at such a path cannot be indexed",
            ));
        }
        let failed = |errno: Errno| HostError::Read { path: real.clone(), source: errno.into() };
        let dir = open_dir(CWD, path.as_bytes()).map_err(failed)?;
        let before = facts(&dir).map_err(failed)?;
        let volume = fingerprints.of(path.as_ref(), &before).volume;
        // The table serves all users, so each of them must be able to search the store.
        if before.stx_mode & SEARCH_FOR_ALL != SEARCH_FOR_ALL {
            return Err(failed(Errno::ACCESS));
        }
        let names = entries_of(&dir).map_err(failed)?;
        let known: FxHashSet<&[u8]> = names.iter().map(|(name, _)| name.as_slice()).collect();
        let is_named = |name: &BString| match &store.packages {
            Packages::Hashed => is_in_package(&[name.as_slice(), b"/"].concat()),
            Packages::Any => true,
            Packages::Chosen(chosen) => chosen.contains(name),
        };
        // Nix keeps `<name>.lock` beside a path while it builds it.
        let is_built = |name: &BString| known.contains(&[name, &b".lock"[..]].concat()[..]);
        let is_package = |(name, kind): &&(BString, FileType)| {
            matches!(kind, FileType::Directory | FileType::Unknown)
                && is_named(name)
                && !name.starts_with(b".")
                // The module does not answer for such a name.
                && !(is_odd(name) || name.len() > 255)
        };
        let all = names.iter().filter(is_package).map(|(name, _)| name.clone());
        let (built, packages) = all.partition(is_built);
        let is_chosen = matches!(store.packages, Packages::Chosen(_));
        Ok(Self { path, is_chosen, dir, before, volume, packages, built })
    }

    fn path_of(&self, name: &BString) -> BString {
        path_in(&self.path, name)
    }

    /// The fingerprint of a directory on its file system. Its length is not compared.
    fn fingerprint(&self, found: &Statx) -> Fingerprint {
        Fingerprint { volume: self.volume, size: 0, ..fingerprint_of(found) }
    }

    /// A store that changed while it was read has a fingerprint that nothing matches.
    fn root(&self, now: Time) -> Root {
        let before = self.fingerprint(&self.before);
        let same = facts(&self.dir).is_ok_and(|after| self.fingerprint(&after) == before);
        let none = Time { sec: i64::MIN, nsec: 0 };
        let fingerprint = if same && before.is_settled(now) {
            before
        } else {
            Fingerprint { mtime: none, ctime: none, ..before }
        };
        let fingerprint = Fingerprint { size: 0, ..fingerprint };
        Root { path: self.path.clone(), is_chosen: self.is_chosen, fingerprint }
    }
}

struct Walk<'a> {
    roots: &'a [Store],
    now: Time,
}

impl Walk<'_> {
    /// A package, and true if it was read; `None` if there is none of this name.
    fn package(
        &self,
        root: usize,
        name: &BString,
        before: &FxHashMap<u64, &Package>,
    ) -> Result<Option<(Package, bool)>, LeftOut> {
        let store = &self.roots[root];
        let state = step(root_state(store.path.as_ref()), name);
        let dir = match open_dir(&store.dir, name) {
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(None),
            dir => dir.map_err(|_| UNREADABLE)?,
        };
        let found = facts(&dir).map_err(|_| UNREADABLE)?;
        let of_package = Fingerprint { volume: 0, ..store.fingerprint(&found) };
        if let Some(known) = before.get(&state)
            && known.fingerprint == of_package
            && !known.young
            && self.is_of(store, &found)
        {
            return Ok(Some((Package { root: root as u32, ..(*known).clone() }, false)));
        }
        let mut one = One { walk: self, store, builder: PackageBuilder::default(), young: false };
        one.directory(dir, state, &mut store.path_of(name))?;
        let package = Package {
            root: root as u32,
            name: name.clone(),
            state,
            fingerprint: of_package,
            young: one.young,
            table: one.builder.finish(),
        };
        Ok(Some((package, true)))
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
        let unreadable = |_: Errno| UNREADABLE;
        let before = facts(&dir).map_err(unreadable)?;
        if !self.walk.is_of(self.store, &before) {
            return Err(MOUNTED);
        }
        let stamp = self.store.fingerprint(&before);
        if !stamp.is_settled(self.walk.now) {
            return Err(CHANGING);
        }
        self.young |= stamp.ctime.sec > self.walk.now.sec - YOUNG;
        let names = entries_of(&dir).map_err(unreadable)?;
        let listed = names.iter().map(|(name, _)| name.as_slice());
        // A listing does not show whether lookups ignore the case.
        let is_listed = |name: &[u8]| names.iter().any(|(other, _)| other == name);
        if is_case_sensitive(&dir, listed, is_listed) == Some(false) {
            return Err(CASEFOLD);
        }
        let length = path.len();
        for (name, kind) in &names {
            path.push(b'/');
            path.extend_from_slice(name);
            let state = step(state, name);
            let kind = match kind {
                // Not every file system reports the type with the name (readdir(3)).
                FileType::Unknown => {
                    let found = Facts::at(&dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
                    found.map_err(|_| UNREADABLE)?.file_type
                }
                kind => *kind,
            };
            match kind {
                FileType::RegularFile => self.builder.add(state, Kind::File),
                FileType::Symlink => match self.target(&dir, name, path) {
                    Some((target, package)) => {
                        self.builder.add_link(Link { state, target, package });
                    }
                    None => self.builder.add(state, Kind::Other),
                },
                FileType::Directory => self.inner(&dir, state, name, path)?,
                _ => self.builder.add(state, Kind::Other),
            }
            path.truncate(length);
        }
        // A name that was added meanwhile may be missing from the list.
        let after = facts(&dir).map_err(unreadable)?;
        if self.store.fingerprint(&after) == stamp { Ok(()) } else { Err(CHANGING) }
    }

    /// Adds a directory in a directory. A directory that is mounted, or that not every user may
    /// search, gets the unknown kind.
    fn inner(
        &mut self,
        dir: &OwnedFd,
        state: u64,
        name: &BString,
        path: &mut BString,
    ) -> Result<(), LeftOut> {
        let found = statx_at(dir, name).map_err(|_| UNREADABLE)?;
        let is_open = found.stx_mode & SEARCH_FOR_ALL == SEARCH_FOR_ALL;
        if !is_open || !self.walk.is_of(self.store, &found) {
            self.builder.add(state, Kind::Other);
            return Ok(());
        }
        self.builder.add(state, Kind::Directory);
        let inner = open_dir(dir, name).map_err(|_| UNREADABLE)?;
        self.directory(inner, state, path)
    }

    /// State and package of the directory that a link leads to, if no other link is on the way.
    fn target(&self, dir: &OwnedFd, name: &BString, path: &BString) -> Option<(u64, u64)> {
        let text = rustix::fs::readlinkat(dir, name.as_bytes(), Vec::new()).ok()?;
        let target = path::normal(&path::of_target(path, text.as_bytes()));
        let root = self.walk.roots.iter().find(|store| {
            let rest = target.strip_prefix(store.path.as_slice());
            rest.is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
        })?;
        let real = path_of(&target);
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

#[cfg(test)]
mod tests;
