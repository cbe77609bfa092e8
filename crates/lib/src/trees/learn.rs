//! Learns from a start: the paths that the program has looked up below network file systems.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use becalm_host::tree::look::{self, Facts, Identity};
use becalm_host::tree::table::{Found, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::CWD;

use crate::records;
use crate::trees::check::Looked;
use crate::trees::copies::{self, Making};
use crate::trees::record::{Adding, Copied, Kind, Record, RecordedPath, place, target_of};
use crate::trees::{folder, in_parallel, is_slow, times_count};

/// A file that has changed since may be one to which programs add, such as a log: it has no copy.
const QUIET: Duration = Duration::from_secs(3600);

/// Adds a start to its record, if no other one is being learned: writes it, and copies the files that the program reads,
/// but for those that the first program still has open: they are `kept`, by device and inode. Nothing was `looked` at if
/// something has changed.
pub(super) fn learn(
    command: &Path,
    mut record: Record,
    table: &Table,
    looked: &Looked,
    kept: &FxHashSet<(u64, u64)>,
) {
    let Some(folder) = folder::made().filter(|_| table.is_taken()) else { return };
    let place = place(&folder, command);
    let Ok(Some(_lock)) = place.lock() else { return };
    // Another start has learned meanwhile: its record stays, and this one's table does not fit its paths.
    let now = Record::at(&place).unwrap_or_default();
    if now.paths != record.paths {
        return;
    }
    (record.header.programs, record.header.seen) = (now.header.programs, now.header.seen);
    record.header.command = command.to_string_lossy().into_owned();
    let had_none = record.paths.is_empty();
    record.header.starts = record.header.starts.saturating_add(1);
    for (at, path) in record.paths.iter_mut().enumerate() {
        let uses = u64::from(table.uses(at)).div_ceil(table.programs().max(1));
        (path.uses, path.unused) =
            if uses == 0 { (path.uses, path.unused + 1) } else { (uses as u32, 0) };
    }
    add(&mut record, table.told());
    let identities = looked_at(&mut record, looked);
    keep(&mut record, &folder, kept);
    record.header.learned = records::now();
    record.finish(&folder);
    // Nothing is kept of a program that looks up nothing there.
    let has_none = record.header.programs.is_empty() && record.header.seen.is_empty();
    let is_empty = record.paths.is_empty() && has_none;
    if (is_empty && had_none) || record.write(&place).is_err() {
        return;
    }
    if copy_wanted(&mut record, &folder, (&identities, Instant::now()), false) {
        record.finish(&folder);
        let _ = record.write(&place);
    }
}

/// Adds the paths that were told and are in trees on network file systems.
fn add(record: &mut Record, told: Vec<(u8, Vec<u8>)>) {
    let mut adding = Adding::to(record);
    let mut trees = Trees::default();
    for (what, path) in told {
        let (read, mapped) = (what == b'r', what == b'm');
        let Ok(mut path) = String::from_utf8(path) else { continue };
        // The loader spells a library's path with the `..` of the run path that led to it.
        if mapped && path.contains("/../") {
            let real = Path::new(&path).canonicalize().ok();
            path = real.and_then(|it| it.into_os_string().into_string().ok()).unwrap_or(path);
        }
        if let Some(known) = adding.known(&path) {
            known.read |= read;
            known.mapped |= mapped;
        } else if RecordedPath::split(&path).is_some()
            && let Some(tree) = trees.of(Path::new(&path)).filter(|it| it.to_str().is_some())
            && adding.record.add_tree(&tree)
        {
            adding.add(RecordedPath { path, read, mapped, ..RecordedPath::default() });
        }
    }
}

/// The trees on network file systems, by directory.
#[derive(Default)]
pub(super) struct Trees(FxHashMap<PathBuf, Option<PathBuf>>);

impl Trees {
    /// Returns the topmost directory above a path that is on a network file system with all below it.
    pub(super) fn of(&mut self, path: &Path) -> Option<PathBuf> {
        let parent = path.parent()?;
        if let Some(known) = self.0.get(parent) {
            return known.clone();
        }
        let tree = self.of(parent).or_else(|| is_slow(parent).then(|| parent.to_owned()));
        self.0.insert(parent.to_owned(), tree.clone());
        tree
    }
}

/// Sets what is there at all paths; looks at those of which it is not known. Returns the identities of regular
/// files.
fn looked_at(record: &mut Record, looked: &Looked) -> Vec<Option<Identity>> {
    let paths = &record.paths;
    let found = in_parallel(&Vec::from_iter(0..paths.len()), |&at| {
        seen(&paths[at], looked.found.get(at).unwrap_or(&Found::Unknown))
    });
    let (mut watched, mut directories) = (BTreeSet::new(), FxHashSet::default());
    let mut identities = Vec::new();
    for (path, seen) in record.paths.iter_mut().zip(found) {
        let identity;
        (path.kind, path.target, identity) = seen;
        identities.push(identity);
        directories.extend(Path::new(&path.path).parent().map(Path::to_owned));
    }
    // What a link on the way leads to is watched too.
    for directory in directories {
        let known = looked.real.get(&directory).cloned();
        if let Some(real) =
            known.or_else(|| look::real(look::directory(CWD, &directory).ok()?.as_fd()))
            && real != directory
        {
            watched.extend(real.to_str().map(ToOwned::to_owned));
        }
    }
    record.watched = watched.into_iter().collect();
    identities
}

/// Returns the kind of what is at a recorded path, the target of a link, and the identity of a regular file: as it was
/// found in the start, or now if that is not known.
fn seen(recorded: &RecordedPath, found: &Found) -> (Kind, Option<String>, Option<Identity>) {
    let path = Path::new(&recorded.path);
    let (facts, followed) = match found {
        Found::Absent => return (Kind::Absent, None, None),
        Found::There { facts, followed, .. } if !is_link(facts) || followed.is_some() => {
            (*facts, *followed)
        }
        Found::There { .. } | Found::Unknown => match look::at(CWD, path, false) {
            Ok(facts) => (facts, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (Kind::Absent, None, None);
            }
            Err(_) => return (Kind::Other, None, None),
        },
    };
    if !is_link(&facts) {
        return (Kind::of(&facts), None, Identity::of_regular(&facts));
    }
    let known = followed.map(|_| recorded.target.clone());
    let end = followed.or_else(|| look::at(CWD, path, true).ok());
    let target = known.unwrap_or_else(|| target_of(path));
    (Kind::Link, target, end.and_then(|it| Identity::of_regular(&it)))
}

fn is_link(facts: &Facts) -> bool {
    look::kind(facts) == look::LINK
}

/// Marks the files that the program still has open, themselves or their copies.
fn keep(record: &mut Record, folder: &Path, kept: &FxHashSet<(u64, u64)>) {
    let is_kept =
        |path: &Path| path.metadata().is_ok_and(|facts| kept.contains(&(facts.dev(), facts.ino())));
    for path in record.paths.iter_mut().filter(|path| path.read && !kept.is_empty()) {
        let copy = path.copy.as_ref().map(|copy| copies::path(folder, &copy.name));
        if is_kept(Path::new(&path.path)) || copy.is_some_and(|copy| is_kept(&copy)) {
            path.kept = true;
            path.copy = None;
        }
    }
}

/// True if a file has not changed for some time.
fn is_quiet(identity: &Identity) -> bool {
    let changed = UNIX_EPOCH + Duration::from_secs(identity.modified.0.max(0) as u64);
    SystemTime::now().duration_since(changed).is_ok_and(|age| age > QUIET)
}

/// Copies files that are wanted, if they have the identities with which they were seen [`copies::SETTLED`] ago. Returns
/// true if the record is another one then.
pub(super) fn copy_wanted(
    record: &mut Record,
    folder: &Path,
    (identities, seen): (&[Option<Identity>], Instant),
    is_for_pack: bool,
) -> bool {
    // An empty file may be one that is locked, by a library whose calls are not seen. That a program reads a file of a
    // pack may not be known yet.
    let is_wanted = |path: &RecordedPath, identity: &Identity| {
        is_for_pack || path.is_used() && identity.size > 0 && is_quiet(identity)
    };
    let making = if is_for_pack { Making::of_pack } else { Making::new };
    let trees: Vec<PathBuf> = record.header.trees.iter().map(PathBuf::from).collect();
    let timed: Vec<PathBuf> = trees.into_iter().filter(|tree| times_count(tree)).collect();
    let mut wanted = Vec::new();
    for (at, (path, identity)) in record.paths.iter().zip(identities).enumerate() {
        let is_copyable = |it: &Identity| !path.kept && is_wanted(path, it);
        let Some(identity) = identity.filter(is_copyable) else { continue };
        let is_copied = path
            .copy
            .as_ref()
            .is_some_and(|copy| copy.of == identity && copies::path(folder, &copy.name).exists());
        if !is_copied && timed.iter().any(|tree| Path::new(&path.path).starts_with(tree)) {
            wanted.push((at, identity));
        }
    }
    let is_copied = !wanted.is_empty() && {
        thread::sleep(copies::SETTLED.saturating_sub(seen.elapsed()));
        making(folder).is_some_and(|making| make(record, making, wanted))
    };
    let is_marked = mark_loadable(record, folder);
    is_copied || is_marked
}

/// Makes copies of files with these identities. Returns false if that fails.
fn make(record: &mut Record, mut making: Making, wanted: Vec<(usize, Identity)>) -> bool {
    let made = wanted.into_iter().filter_map(|(at, identity)| {
        let name = making.copy(Path::new(&record.paths[at].path), &identity)?;
        Some((at, Copied { name, of: identity, loads: None }))
    });
    let made: Vec<_> = made.collect();
    let is_finished = making.finish();
    for (at, copy) in made.into_iter().filter(|_| is_finished) {
        record.paths[at].copy = Some(copy);
    }
    is_finished
}

/// Finds out which copies of libraries the loader may map. Returns true if one was not known.
pub(super) fn mark_loadable(record: &mut Record, folder: &Path) -> bool {
    let mut is_marked = false;
    let mapped = record.paths.iter_mut().filter(|path| path.mapped);
    for copy in mapped.filter_map(|path| path.copy.as_mut()).filter(|copy| copy.loads.is_none()) {
        copy.loads = Some(copies::is_loadable(&copies::path(folder, &copy.name)));
        is_marked = true;
    }
    is_marked
}
