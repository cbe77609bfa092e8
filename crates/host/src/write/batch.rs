//! Writes many files together, so that each step waits for the disk once and not once a file.
//!
//! The order of the steps protects against a power failure:
//!
//! 1. For files written in place, the patch's first range beyond the end is synced. It records the
//!    old length, so the file can be restored however little of the rest reaches the disk.
//! 2. New content is synced: whole temporary files, and everything beyond the old end of files
//!    written in place, including the trailer with the old bytes. If a rename reached the disk
//!    before the content, the name would have an empty file. If an overwritten byte reached the
//!    disk before the trailer, the old byte would be lost.
//! 3. Temporary files are renamed to the old names; ranges inside files are overwritten.
//! 4. Directories and the overwritten ranges are synced. Only after this step a file counts as
//!    written.
//! 5. Files that become shorter (an edit undone in place) are truncated and synced. Before step 4
//!    the truncation could reach the disk before the restored bytes and remove the trailer that has
//!    copies of them.
//!
//! If only the process is killed, the order of the calls is enough.

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
use super::sys::{On, Sys};

/// Up to this number of files, each file is synced alone. `syncfs` would also wait for writes of
/// other programs to the file system.
const FEW: usize = 8;

/// A file whose new content is ready, in a temporary file or beyond its end. Dropping it without a
/// commit leaves the file unchanged.
pub struct Prepared(pub(super) Work);

/// The method by which the content becomes the file's.
pub(super) enum Work {
    Atomic(Box<Atomic>),
    InPlace(Box<InPlace>),
}

/// A written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file, with symbolic links resolved.
    pub path: PathBuf,
    /// Device and inode of the file when it was opened.
    pub id: FileId,
    /// Length before the edit, in bytes.
    pub old_length: u64,
    /// Length after the edit, in bytes.
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

    /// Returns the descriptor of the old file, which has no name any more.
    fn replaced(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Atomic(atomic) => Some(atomic.old.fd.clone()),
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

/// A file that has passed all steps so far, or its error.
type Slot = Result<Work, WriteError>;

/// Runs each step for all files. A file that fails skips the remaining steps; the others go on. If
/// `wait` is false, no step waits for the disk.
pub(super) fn commit(
    sys: &Sys,
    release: &Release,
    wait: bool,
    batch: Vec<Prepared>,
) -> Vec<Result<Written, WriteError>> {
    let mut slots: Vec<Slot> = batch.into_iter().map(|prepared| Ok(prepared.0)).collect();
    let not_reached =
        |work: &mut Work, errno| WriteError::failed(work.path(), "reach the disk", errno);
    if wait {
        sync(sys, &mut slots, leader, not_reached);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.extend(),
    });
    if wait {
        sync(sys, &mut slots, new_content, not_reached);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(atomic) => atomic.replace_old(sys),
        Work::InPlace(in_place) => in_place.overwrite(),
    });
    if wait {
        sync(sys, &mut slots, dependents, |work, errno| match work {
            Work::Atomic(_) => WriteError::not_synced(work.path(), errno),
            Work::InPlace(in_place) => in_place.overwritten_unsynced(errno),
        });
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.shorten(),
    });
    if wait {
        sync(sys, &mut slots, shortened, |work, errno| WriteError::not_synced(work.path(), errno));
    }
    release.close(slots.iter().flatten().filter_map(Work::replaced).collect());
    slots.into_iter().map(|slot| slot.map(|work| work.written())).collect()
}

/// Runs a step for each file that has not failed.
fn each(slots: &mut [Slot], step: impl Fn(&mut Work) -> Result<(), WriteError> + Sync) {
    slots.par_iter_mut().for_each(|slot| {
        if let Ok(work) = slot
            && let Err(error) = step(work)
        {
            *slot = Err(error);
        }
    });
}

/// A file or directory to sync; several files may share it.
#[derive(Clone, Copy)]
struct Target<'a> {
    id: FileId,
    on: On<'a>,
}

fn leader(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::InPlace(in_place) if in_place.has_grown() => Some(whole(in_place)),
        _ => None,
    }
}

fn new_content(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::Atomic(atomic) => Some(Target { id: atomic.new.id, on: atomic.new.on() }),
        Work::InPlace(_) => leader(work),
    }
}

fn dependents(work: &Work) -> Option<Target<'_>> {
    match work {
        Work::Atomic(atomic) => Some(Target { id: atomic.new.dir.id, on: atomic.new.dir.on() }),
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
    Target { id: in_place.id(), on: in_place.on() }
}

/// Syncs the `target` of each file.
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

/// Syncs each target or, for many targets, their file systems. Returns the error of each.
fn sync_targets(sys: &Sys, targets: &[Option<Target<'_>>]) -> Vec<Option<Errno>> {
    let unique: FxHashMap<FileId, Target<'_>> =
        targets.iter().flatten().map(|target| (target.id, *target)).collect();
    if unique.len() <= FEW || !*SYNCFS_REPORTS_ERRORS {
        let outcome =
            |(id, target): (&FileId, &Target<'_>)| Some((*id, sys.sync(target.on).err()?));
        let errors: FxHashMap<FileId, Errno> = unique.par_iter().filter_map(outcome).collect();
        return targets.iter().map(|t| t.and_then(|t| errors.get(&t.id).copied())).collect();
    }
    // One descriptor is enough for a file system (syncfs(2)).
    let systems: FxHashMap<u64, Target<'_>> =
        unique.values().map(|target| (target.id.dev, *target)).collect();
    let outcome = |(dev, target): (&u64, &Target<'_>)| Some((*dev, sys.sync_all(target.on).err()?));
    let errors: FxHashMap<u64, Errno> = systems.par_iter().filter_map(outcome).collect();
    // `syncfs` does not name the file that failed, so the error counts for all files of the system.
    targets.iter().map(|t| t.and_then(|t| errors.get(&t.id.dev).copied())).collect()
}

/// True if `syncfs` reports write errors, which it does since Linux 5.8 (syncfs(2), "Versions"). On
/// older kernels each file is synced alone.
static SYNCFS_REPORTS_ERRORS: LazyLock<bool> = LazyLock::new(|| {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
});
