//! A scratch directory that is gone at the end, however the end comes: an error, an
//! interrupt. Trees are copied into it.

pub(crate) mod import;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use becalm_host::child::kill_descendants;
use becalm_lib::words::words;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::exit_code::ExitStatus;

/// More than a comparison may fill.
const MOST: u64 = 1_500_000_000;

/// Bytes that must stay free on the file system.
const SPARE: u64 = 64 << 20;

/// The directory.
pub(crate) struct Scratch {
    dir: Option<TempDir>,
    path: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Scratch {
    /// A new directory below that of temporary files (`TMPDIR`). From here on a signal that
    /// ends the process kills what it started and removes the directory first.
    ///
    /// # Errors
    /// It cannot be made, or signals cannot be watched.
    pub(crate) fn new() -> Result<Self> {
        // Before there is a directory that a signal could leave behind. The thread that ends the
        // process is told of each signal that comes from here on; the flag is for the others.
        let all = [SIGINT, SIGTERM, SIGHUP];
        let mut signals = Signals::new(all)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in all {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let place = std::env::temp_dir();
        let dir = tempfile::Builder::new().prefix("becalm-").tempdir_in(&place);
        let dir = dir.map_err(|error| {
            anyhow!("no scratch directory in {}: {}", place.display(), words(&error))
        })?;
        let path = dir.path().canonicalize()?;
        let of_thread = path.clone();
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                give_up(&of_thread, signal);
            }
        });
        Ok(Self { dir: Some(dir), path, interrupted })
    }

    /// Its path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The outcome of the work, and the directory removed. Work that failed because a signal
    /// killed what it had started has no outcome: the signal ends the process.
    pub(crate) fn done<T>(mut self, outcome: Result<T>) -> Result<T> {
        while self.interrupted.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        if let Some(dir) = self.dir.take() {
            dir.close().with_context(|| format!("{}: cannot be removed", self.path.display()))?;
        }
        outcome
    }
}

/// The end that a signal asks for.
fn give_up(dir: &Path, signal: i32) -> ! {
    // What still runs may start and write more meanwhile.
    for _ in 0..100 {
        kill_descendants();
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = ExitStatus::Signal(u8::try_from(signal).unwrap_or(u8::MAX));
    std::process::exit(status.code().into())
}

/// How the files of a tree come into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Copied, sharing their blocks with the original where the file system can. Never
    /// linked: a further link changes the time that indexes and backups watch.
    Copied,
    /// As further names of the same files.
    Linked,
}

/// Copies a tree to a path that is not there yet: directories, files, links; with modes,
/// times and, for root, owners.
///
/// # Errors
/// Something cannot be read or written; the line names it.
pub(crate) fn copy_tree(from: &Path, to: &Path, how: How) -> Result<()> {
    let failed = |path: &Path, error: io::Error| anyhow!("{}: {}", path.display(), words(&error));
    let about = from.symlink_metadata().map_err(|error| failed(from, error))?;
    let kind = about.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to).map_err(|error| failed(to, error))?;
        for entry in fs::read_dir(from).map_err(|error| failed(from, error))? {
            let name = entry.map_err(|error| failed(from, error))?.file_name();
            copy_tree(&from.join(&name), &to.join(&name), how)?;
        }
        // A read-only directory, as stores have, could not be filled.
        let writable = fs::Permissions::from_mode(about.mode() & 0o7777 | 0o700);
        fs::set_permissions(to, writable).map_err(|error| failed(to, error))?;
    } else if kind.is_symlink() {
        let target = from.read_link().map_err(|error| failed(from, error))?;
        symlink(target, to).map_err(|error| failed(to, error))?;
    } else if kind.is_file() && how == How::Linked {
        fs::hard_link(from, to).map_err(|error| failed(to, error))?;
    } else if kind.is_file() {
        copy_file(from, to, &about).map_err(|error| failed(from, error))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, about: &fs::Metadata) -> io::Result<()> {
    fs::copy(from, to)?;
    if rustix::process::geteuid().is_root() {
        // In a user namespace there may be no such owner.
        let _ = std::os::unix::fs::chown(to, Some(about.uid()), Some(about.gid()));
        fs::set_permissions(to, about.permissions())?;
    }
    if let Ok(modified) = about.modified() {
        // A read-only file that belongs to us may still be opened by its owner's right to
        // change its times; where not, the time is no matter.
        let _ = fs::File::open(to).and_then(|file| file.set_modified(modified));
    }
    Ok(())
}

/// Whether trees of so many bytes may be copied to a directory.
///
/// # Errors
/// They are too large, or there is no room.
pub(crate) fn check_mount_namespace(dir: &Path, bytes: u64) -> Result<()> {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    if bytes > MOST {
        bail!(
            "the packages of its closure hold {} MB, more than the {} MB that are copied",
            megabytes(bytes),
            megabytes(MOST)
        );
    }
    let about = rustix::fs::statvfs(dir).map_err(io::Error::from)?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free < bytes.saturating_add(SPARE) {
        bail!(
            "{}: no room: {} MB are free, {} are needed; TMPDIR names another place",
            dir.display(),
            megabytes(free),
            megabytes(bytes + SPARE)
        );
    }
    Ok(())
}

/// One file of a tree, as far as a comparison goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path below the tree.
    pub path: PathBuf,
    /// Inode number: a different number means a different file. 0 for a link, which is identified
    /// by its target.
    pub ino: u64,
    /// Target of a link.
    pub target: Option<PathBuf>,
    /// Bytes that it takes on the disk, or would.
    pub bytes: u64,
    /// True for a directory.
    pub is_dir: bool,
}

/// Returns the entries of a tree, sorted by path.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub(crate) fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let here = root.join(&dir);
        let read = fs::read_dir(&here).map_err(|e| anyhow!("{}: {}", here.display(), words(&e)))?;
        for entry in read {
            let entry = entry?;
            let about = entry.path().symlink_metadata()?;
            let path = dir.join(entry.file_name());
            if about.is_dir() {
                left.push(path.clone());
            }
            // A directory takes what its file system gives it; its entries are what counts.
            let bytes = if about.is_dir() { 0 } else { about.len() };
            let target = about.is_symlink().then(|| entry.path().read_link()).transpose()?;
            let ino = if target.is_some() { 0 } else { about.ino() };
            all.push(Entry { path, ino, target, bytes, is_dir: about.is_dir() });
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}
