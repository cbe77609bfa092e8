//! Many files written together: the disk is waited for once a step for all of them, not once
//! a file.
//!
//! The order, which is the whole safety against a power failure:
//!
//! 1. Of files written in place the leader, which says where they ended, reaches the disk: what
//!    follows it can then be told from the file, however little of it is there.
//! 2. New content reaches the disk: of temporary files all of it, of files written in place
//!    what goes beyond their end, the trailer with the old bytes included. Nothing may rely on
//!    these before; a rename or an overwritten byte that reached the disk first would leave a
//!    name without content, or a change without the way back.
//! 3. Temporary files take the place of the old ones; ranges inside are overwritten.
//! 4. Directories, and the ranges inside, reach the disk. Only now is a file said to be
//!    written.
//! 5. Files that are to be shorter (an edit that is taken back in place) are cut, and that
//!    reaches the disk. Before step 4 the cut could overtake the bytes that it takes the
//!    trailer from.
//!
//! A process that is killed needs none of this, only the order of the calls.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use becalm_core::fs::FileId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use super::atomic::Atomic;
use super::error::WriteError;
use super::in_place::InPlace;
use super::release::Release;
use super::sys::{self, Sys};

/// Up to so many files, each is synced by itself: syncing the whole file system would wait
/// for what other programs have written to it.
const FEW: usize = 8;

/// A file whose new content is ready: beside it, or beyond its end. Dropping it instead of
/// committing it leaves the file as it was.
pub struct Prepared(pub(super) Work);

/// How it is to become the file's content.
pub(super) enum Work {
    Atomic(Box<Atomic>),
    InPlace(Box<InPlace>),
}

/// A file that has its new content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file, links followed.
    pub path: PathBuf,
    /// Device and inode that the file had when it was opened.
    pub id: FileId,
    /// Length before, in bytes.
    pub old_length: u64,
    /// Length now, in bytes.
    pub new_length: u64,
}

impl Work {
    fn written(&self) -> Written {
        let (old, new_length) = match self {
            Self::Atomic(atomic) => (&atomic.old, atomic.length),
            Self::InPlace(in_place) => (&in_place.old, in_place.length),
        };
        let old_length = old.fingerprint().size;
        Written { path: old.path.clone(), id: old.id(), old_length, new_length }
    }

    /// The descriptor of a file that has no name any more.
    fn replaced(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Atomic(atomic) => Some(atomic.old.reader.file.clone()),
            Self::InPlace(_) => None,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Atomic(atomic) => &atomic.old.path,
            Self::InPlace(in_place) => &in_place.old.path,
        }
    }
}

/// A file on its way, or why it got no further.
type Slot = Result<Work, WriteError>;

/// Takes all files through one step after the other; a file that fails is left behind, and
/// the others go on. Without `wait` the disk is not waited for.
pub(super) fn commit(
    sys: &Sys,
    release: &Release,
    wait: bool,
    batch: Vec<Prepared>,
) -> Vec<Result<Written, WriteError>> {
    let mut slots: Vec<Slot> = batch.into_iter().map(|prepared| Ok(prepared.0)).collect();
    let not_there = |work: &mut Work, errno| WriteError::Failed {
        path: work.path().to_owned(),
        what: "reach the disk",
        source: sys::error(errno),
    };
    if wait {
        sync(sys, &mut slots, leader, not_there);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.extend(),
    });
    if wait {
        sync(sys, &mut slots, new_content, not_there);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(atomic) => atomic.take_place(sys),
        Work::InPlace(in_place) => in_place.overwrite(),
    });
    if wait {
        sync(sys, &mut slots, what_relies_on_it, |work, errno| match work {
            Work::Atomic(_) => not_synced(work, errno),
            Work::InPlace(in_place) => in_place.overwritten_unsynced(sys::error(errno)),
        });
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.shorten(),
    });
    if wait {
        sync(sys, &mut slots, shortened, |work, errno| not_synced(work, errno));
    }
    release.close(slots.iter().flatten().filter_map(Work::replaced).collect());
    slots.into_iter().map(|slot| slot.map(|work| work.written())).collect()
}

fn not_synced(work: &Work, errno: Errno) -> WriteError {
    WriteError::NotSynced { path: work.path().to_owned(), source: sys::error(errno) }
}

/// One step for each file that came so far.
fn each(slots: &mut [Slot], step: impl Fn(&mut Work) -> Result<(), WriteError> + Sync) {
    slots.par_iter_mut().for_each(|slot| {
        if let Ok(work) = slot
            && let Err(error) = step(work)
        {
            *slot = Err(error);
        }
    });
}

/// A file or directory to be synced; several files may share one.
#[derive(Clone, Copy)]
struct Target<'a> {
    id: FileId,
    fd: &'a OwnedFd,
    path: &'a Path,
}

fn leader(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::InPlace(in_place) if in_place.has_grown() => Some(whole(in_place)),
        _ => None,
    }
}

fn new_content(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::Atomic(atomic) => {
            let (fd, path) = (&atomic.new.fd, atomic.new.path.as_path());
            Some(Target { id: atomic.new.id, fd, path })
        }
        Work::InPlace(_) => leader(work),
    }
}

fn what_relies_on_it(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::Atomic(atomic) => {
            let dir = &atomic.new.dir;
            Some(Target { id: dir.id, fd: &dir.fd, path: &dir.path })
        }
        Work::InPlace(in_place) => Some(whole(in_place)),
    }
}

fn shortened(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::InPlace(in_place) if in_place.shortens() => Some(whole(in_place)),
        _ => None,
    }
}

fn whole(in_place: &InPlace) -> Target<'_> {
    Target { id: in_place.id(), fd: &in_place.fd, path: &in_place.old.path }
}

/// Brings to the disk what `target` names of each file.
fn sync(
    sys: &Sys,
    slots: &mut [Slot],
    target: impl Fn(&Work) -> Option<Target<'_>>,
    failed: impl Fn(&mut Work, Errno) -> WriteError,
) {
    let targets: Vec<Option<Target<'_>>> =
        slots.iter().map(|slot| slot.as_ref().ok().and_then(&target)).collect();
    let errors = sync_targets(sys, &targets);
    for (slot, errno) in slots.iter_mut().zip(errors) {
        if let (Ok(work), Some(errno)) = (&mut *slot, errno) {
            *slot = Err(failed(work, errno));
        }
    }
}

/// Syncs each target, or the file systems they lie on; gives the error of each.
fn sync_targets(sys: &Sys, targets: &[Option<Target<'_>>]) -> Vec<Option<Errno>> {
    let unique: FxHashMap<FileId, Target<'_>> =
        targets.iter().flatten().map(|target| (target.id, *target)).collect();
    if unique.len() <= FEW || !*SYNCFS_TELLS_ERRORS {
        let outcome = |(id, target): (&FileId, &Target<'_>)| {
            Some((*id, sys.sync(target.path, target.fd).err()?))
        };
        let errors: FxHashMap<FileId, Errno> = unique.par_iter().filter_map(outcome).collect();
        return targets.iter().map(|t| t.and_then(|t| errors.get(&t.id).copied())).collect();
    }
    let systems: FxHashMap<u64, Target<'_>> =
        unique.values().map(|target| (target.id.dev, *target)).collect();
    let outcome = |(dev, target): (&u64, &Target<'_>)| {
        Some((*dev, sys.sync_all(target.path, target.fd).err()?))
    };
    let errors: FxHashMap<u64, Errno> = systems.par_iter().filter_map(outcome).collect();
    targets.iter().map(|t| t.and_then(|t| errors.get(&t.id.dev).copied())).collect()
}

/// Whether `syncfs` says that writing failed: since Linux 5.8 (syncfs(2), "Versions"). Before,
/// each file is asked by itself.
static SYNCFS_TELLS_ERRORS: LazyLock<bool> = LazyLock::new(|| {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
});
