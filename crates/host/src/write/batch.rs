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

use std::path::Path;
use std::sync::LazyLock;

use becalm_core::fs::FileId;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::io::Errno;

use super::atomic::Atomic;
use super::error::WriteError;
use super::in_place::InPlace;
use super::sys::{On, Sys};

/// Up to this number of files, each file is synced alone. `syncfs` would also wait for writes of
/// other programs to the file system.
const FEW: usize = 8;

/// A file whose new content is ready, in a temporary file or beyond its end. Dropping it without a
/// commit leaves the file unchanged.
pub struct Prepared {
    pub(super) work: Work,
    /// The length of the file before and after a commit, in bytes.
    pub lengths: (u64, u64),
}

/// The method by which the content becomes the file's.
pub(super) enum Work {
    Atomic(Box<Atomic>),
    InPlace(Box<InPlace>),
}

impl Work {
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
pub(super) fn commit(sys: &Sys, wait: bool, batch: Vec<Prepared>) -> Vec<Result<(), WriteError>> {
    let mut slots: Vec<Slot> = batch.into_iter().map(|prepared| Ok(prepared.work)).collect();
    let not_reached =
        |work: &mut Work, errno| WriteError::failed(work.path(), "reach the disk", errno);
    if wait {
        sync(sys, &mut slots, |_| None, InPlace::has_grown, not_reached);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.extend(),
    });
    if wait {
        sync(sys, &mut slots, |it| Some((it.new.id, it.new.on())), InPlace::has_grown, not_reached);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(atomic) => atomic.replace_old(sys),
        Work::InPlace(in_place) => in_place.overwrite(),
    });
    let not_synced = |work: &mut Work, errno| WriteError::not_synced(work.path(), errno);
    if wait {
        // Some new bytes of a file written in place may have reached the disk, and then its trailer has the only
        // copy of the old ones: after an error the file is left as it is.
        sync(sys, &mut slots, |it| Some((it.new.dir.id, it.new.dir.on())), |_| true, not_synced);
    }
    each(&mut slots, |work| match work {
        Work::Atomic(_) => Ok(()),
        Work::InPlace(in_place) => in_place.shorten(),
    });
    if wait {
        sync(sys, &mut slots, |_| None, InPlace::shortens, not_synced);
    }
    // In several threads: closing the last descriptor of a file without a name frees its blocks, which may
    // wait for the disk (ext4 mounted with `discard`).
    slots.into_par_iter().map(|slot| slot.map(drop)).collect()
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
type Target<'a> = (FileId, On<'a>);

/// Syncs a target of each file that is replaced, and those files written in place that are chosen.
fn sync(
    sys: &Sys,
    slots: &mut [Slot],
    of_atomic: impl Fn(&Atomic) -> Option<Target<'_>>,
    is_chosen: impl Fn(&InPlace) -> bool,
    failed: impl Fn(&mut Work, Errno) -> WriteError,
) {
    let targets = slots.iter().map(|slot| match slot {
        Ok(Work::Atomic(atomic)) => of_atomic(atomic),
        Ok(Work::InPlace(it)) => is_chosen(it).then(|| (it.id(), it.on())),
        Err(_) => None,
    });
    let errors = sync_targets(sys, &targets.collect::<Vec<_>>());
    for (slot, errno) in slots.iter_mut().zip(errors) {
        if let (Ok(work), Some(errno)) = (&mut *slot, errno) {
            *slot = Err(failed(work, errno));
        }
    }
}

/// Syncs each target or, for many targets, their file systems. Returns the error of each.
fn sync_targets(sys: &Sys, targets: &[Option<Target<'_>>]) -> Vec<Option<Errno>> {
    let all = || targets.iter().flatten();
    let is_few = all().map(|(id, _)| id).collect::<FxHashSet<_>>().len() <= FEW;
    let is_each = is_few || !*SYNCFS_REPORTS_ERRORS;
    // One descriptor is enough for a file system (syncfs(2)), and `syncfs` does not name the file that failed:
    // the error counts for all files of the system.
    let unit = |id: FileId| if is_each { id } else { FileId { ino: 0, ..id } };
    let units: FxHashMap<FileId, On<'_>> = all().map(|&(id, on)| (unit(id), on)).collect();
    let outcome = |(unit, on): (&FileId, &On<'_>)| {
        let synced = if is_each { sys.sync(*on) } else { sys.sync_all(*on) };
        Some((*unit, synced.err()?))
    };
    let errors: FxHashMap<FileId, Errno> = units.par_iter().filter_map(outcome).collect();
    targets.iter().map(|it| it.and_then(|(id, _)| errors.get(&unit(id)).copied())).collect()
}

/// True if `syncfs` reports write errors, which it does since Linux 5.8 (syncfs(2), "Versions"). On
/// older kernels each file is synced alone.
static SYNCFS_REPORTS_ERRORS: LazyLock<bool> = LazyLock::new(|| {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
});
