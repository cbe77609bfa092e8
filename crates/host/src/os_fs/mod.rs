//! Implements [`becalm_core::fs::FileSystem`] on the real file system. Errors are exactly the
//! kernel's, and lookups of absent files are fast.
//!
//! A closure walk looks up thousands of paths, nearly all of them absent. All walks of a process
//! therefore share two caches, with keys that change when the file changes:
//!
//! - **Directory listings** (`listing`): a name that is not in the listing is absent, which needs
//!   no system call. A directory is listed only after a few misses in it.
//! - **Opened objects** (`object_file`): device, inode, times and length map to the parsed object,
//!   or to the error of `open`.
//!
//! A [`Session`] is one closure walk, or a few that follow each other at once. It reads the state
//! of each directory once (with a `stat` of `<dir>/.`, which fails exactly as a lookup in the
//! directory would) and relies on it until the session ends. The next session reads it again, so it
//! sees changes on the disk. Everything else is a system call: the kernel resolves symbolic links,
//! checks permissions and detects link loops.
//!
//! `root` makes the system calls, on the real root or inside another one.

mod listing;
mod object_file;
mod root;
mod session;
mod symbols;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use becalm_core::facts::{Libc, LoaderFacts};
use becalm_core::fs::{Errno, FileId};
use becalm_core::symbols::ObjectSymbols;
use bstr::{BStr, BString, ByteSlice};

use crate::HostError;
use crate::cache::Cache;
use crate::facts::Facts;
use crate::fingerprint::{self, Fingerprint};
use crate::path::path_of;
use listing::KnownDir;
use object_file::Opened;
use root::Root;

pub use session::Session;
pub use symbols::OsSymbols;

/// A root of the real file system and the caches of its content. Any number of threads can share
/// it; each closure walk needs its own [`OsFs::session`].
#[derive(Debug)]
pub struct OsFs {
    root: Root,
    // The key is a state, so that what was read in another one is not found.
    dirs: Cache<Fingerprint, Arc<KnownDir>>,
    files: Cache<Fingerprint, Opened>,
    /// Facts of loaders, by the interpreter's state and the user's choices.
    pub(crate) facts: Cache<(Fingerprint, FactChoice), Arc<LoaderFacts>>,
    tables: Cache<Fingerprint, Arc<ObjectSymbols>>,
}

/// The user's choices about the loader, which override its facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FactChoice {
    /// The C library whose rules apply (`--libc`).
    pub libc: Option<Libc>,
    /// The processor, as [`becalm_core::search::hwcaps::for_cpu`] accepts it (`--cpu`). If this or `libc` is set, no
    /// loader is run.
    pub cpu: Option<String>,
    /// `GLIBC_TUNABLES` of the start. A loader that is run applies them to its facts; those of any
    /// other loader are without them.
    pub tunables: BString,
}

impl OsFs {
    /// Returns the file system of this machine. Relative paths start at the current directory.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "there is no other way to make it")]
    pub fn new() -> Self {
        Self {
            root: Root::Real,
            dirs: Cache::new(usize::MAX),
            files: Cache::new(usize::MAX),
            facts: Cache::new(usize::MAX),
            tables: Cache::new(symbols::MAX_KEPT),
        }
    }

    /// Uses the tree below `dir` as a root. Absolute symbolic links inside it resolve inside it,
    /// and neither a link nor `..` can leave it. Relative paths start at that root. The directory
    /// is held open, so it may be renamed meanwhile.
    ///
    /// # Errors
    /// Returns [`HostError::Unusable`] if `dir` is not a directory or cannot be opened, and if the
    /// kernel cannot confine lookups.
    pub fn in_root(dir: &Path) -> Result<Self, HostError> {
        Ok(Self { root: Root::inside(dir)?, ..Self::new() })
    }

    /// Limits how many directories and objects are remembered beyond a session, so that memory does
    /// not grow with the number of files. Forgotten entries are read again.
    pub fn limit_memory(&mut self, entries: usize) {
        (self.dirs, self.files) = (Cache::new(entries), Cache::new(entries));
    }

    /// Starts a session for one closure walk, or for a few that follow each other at once.
    #[must_use]
    pub fn session(&self) -> Session<'_> {
        Session::new(self)
    }

    /// Returns true if this is the machine's own root, whose programs can run here.
    #[must_use]
    pub fn is_real_root(&self) -> bool {
        matches!(self.root, Root::Real)
    }

    /// Converts a path that the user typed to a path inside the root. If the path leads into the
    /// root (by any links or `..`), the part above the root is removed. Any other path counts as a
    /// path inside the root already. On the real root paths stay as they are.
    #[must_use]
    pub fn inside(&self, host_path: &Path) -> BString {
        let typed = || <[u8]>::from_path(host_path).unwrap_or_default();
        let Some(root_id) = self.root.id() else { return typed().into() };
        if let Some(rest) = below(host_path, root_id) {
            return rest;
        }
        // The root may have been opened through a link to a directory below. Only the parent is
        // resolved here, because a link in the last component must be resolved inside the root.
        if let (Some(parent), Some(name)) = (host_path.parent(), host_path.file_name()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            if let Ok(real) = parent.canonicalize()
                && let Some(rest) = below(&real.join(name), root_id)
            {
                return rest;
            }
        }
        let mut inside = BString::from("/");
        inside.extend_from_slice(typed().trim_start_with(|c| c == '/'));
        inside
    }

    /// Converts a path inside the root to a path of this machine with all symbolic links resolved,
    /// where a folder walk can start. On the real root paths stay as they are.
    ///
    /// # Errors
    /// Returns [`HostError::Read`] if the path does not exist or cannot be reached.
    pub fn host_path(&self, inside: &BStr) -> Result<PathBuf, HostError> {
        if self.is_real_root() {
            return Ok(path_of(inside));
        }
        self.root
            .host_path(inside)
            .map_err(|errno| HostError::Read { path: path_of(inside), source: io_error(errno) })
    }

    /// Returns the state of the interpreter at a path inside the root.
    pub(crate) fn interpreter(&self, path: &BStr) -> Result<Fingerprint, Errno> {
        self.root.stat(path).map(|stat| stat.fingerprint)
    }

    /// Opens the interpreter and reads its current state and all of its bytes.
    pub(crate) fn read_interpreter(&self, path: &BStr) -> Result<(File, Facts, Vec<u8>), Errno> {
        object_file::read_whole(&self.root, path, &self.root.stat(path)?)
    }

    /// Opens the file that `stat` has just described, or returns the cached result.
    fn opened(&self, path: &[u8], stat: &Facts) -> Opened {
        if let Some(known) = self.files.get(&stat.fingerprint) {
            return known;
        }
        // A change between this time and the end of the read may leave the file's times as they
        // are.
        let started = fingerprint::now();
        let (state, opened) = object_file::open(&self.root, path, stat);
        if let Some(state) = state.filter(|state| !state.may_change_unseen(started)) {
            self.files.insert(state, opened.clone(), 1);
        }
        opened
    }
}

/// Converts an errno to the standard library's error, for messages.
pub(crate) fn io_error(errno: Errno) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno.0)
}

/// Returns the part of `path` below its first ancestor that is the directory `root`. Returns `None`
/// if there is no such ancestor or the rest leaves it again by `..`.
fn below(path: &Path, root: FileId) -> Option<BString> {
    use std::os::unix::fs::MetadataExt;
    let absolute = std::path::absolute(path).ok()?;
    let is_root = |dir: &Path| {
        std::fs::metadata(dir).is_ok_and(|m| m.dev() == root.dev && m.ino() == root.ino)
    };
    let mut ancestors: Vec<&Path> = absolute.ancestors().collect();
    ancestors.reverse();
    let top = ancestors.into_iter().find(|dir| is_root(dir))?;
    let rest = absolute.strip_prefix(top).ok()?;
    let mut depth = 0_i32;
    for component in rest.components() {
        depth += if component == Component::ParentDir { -1 } else { 1 };
        if depth < 0 {
            return None;
        }
    }
    let mut inside = BString::from("/");
    inside.extend_from_slice(<[u8]>::from_path(rest)?);
    Some(inside)
}
