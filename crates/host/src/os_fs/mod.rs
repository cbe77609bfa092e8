//! The real file system, as [`becalm_core::fs::FileSystem`] wants it: faithful to
//! the kernel's errno, and quick where the answer is "no such file".
//!
//! A closure walk asks for thousands of paths of which nearly all are absent. Two
//! things are therefore shared by all walks of one process, both keyed by what
//! changes when the file changes:
//!
//! - **directory listings** (`listing`): a name that is not listed is absent
//!   without a system call. A directory is listed only after a few misses in it.
//! - **opened objects** (`object_file`): device and inode, times, length → the
//!   parsed object, or the refusal of `open`.
//!
//! A [`Session`] is one closure walk, or a few that follow each other at once. It looks
//! at each directory once (one `stat` of `<dir>/.`, which fails exactly as any look-up
//! in the directory would) and trusts what it saw until it ends; the next session looks
//! again, so a change on disk between two sessions is seen. Everything else is a real system
//! call: links, permissions and link loops are the kernel's business and stay there.
//!
//! `root` makes the system calls, on the real root or inside another one.

mod fingerprint;
mod interpreter;
mod listing;
mod object_file;
mod root;
mod session;
mod shards;
mod symbols;

#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use becalm_core::fs::{Errno, FileId, OpenedFile};
use bstr::{BStr, BString, ByteSlice};

use crate::HostError;
use fingerprint::{Fingerprint, Stat};
use listing::KnownDir;
use root::Root;
use shards::Shards;

pub(crate) use interpreter::{Interpreter, OpenInterpreter};
pub(crate) use root::proc_path;
pub use session::Session;
pub use symbols::OsSymbols;

/// One root of the real file system and what has been learned of it. Shared by any
/// number of threads; each closure walk takes its own [`OsFs::session`].
#[derive(Debug)]
pub struct OsFs {
    root: Root,
    dirs: Shards<FileId, Arc<KnownDir>>,
    files: Shards<FileId, KnownFile>,
    pub(crate) facts: crate::ask::FactCache,
}

/// What opening a file gave, and the state of the file that it held for.
#[derive(Clone, Debug)]
struct KnownFile {
    fingerprint: Fingerprint,
    result: Result<Arc<OpenedFile>, Errno>,
}

impl Default for OsFs {
    fn default() -> Self {
        Self::new()
    }
}

impl OsFs {
    /// The file system of this machine; relative paths start at the current directory.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Root::Real)
    }

    /// The tree below `dir` as a root of its own: absolute links inside it resolve
    /// inside it, and neither a link nor `..` leads out. Relative paths start at that
    /// root. The directory is held open, so it may be renamed meanwhile.
    ///
    /// # Errors
    /// [`HostError::OpenRoot`] where `dir` is no directory or cannot be opened;
    /// [`HostError::NoOpenat2`] where the kernel cannot confine look-ups.
    pub fn in_root(dir: &Path) -> Result<Self, HostError> {
        Ok(Self::on(Root::inside(dir)?))
    }

    fn on(root: Root) -> Self {
        Self {
            root,
            dirs: Shards::default(),
            files: Shards::default(),
            facts: crate::ask::FactCache::default(),
        }
    }

    /// A view for one closure walk, or for a few made without a pause.
    #[must_use]
    pub fn session(&self) -> Session<'_> {
        Session::new(self)
    }

    /// True where this is the machine's own root, whose programs can run here.
    #[must_use]
    pub fn is_real_root(&self) -> bool {
        matches!(self.root, Root::Real)
    }

    /// The path inside the root of what the user typed. A path that leads into the
    /// root (by whatever links or `..`) loses the part above it; any other is taken
    /// as a path inside the root already. Unchanged on the real root.
    #[must_use]
    pub fn inside(&self, host_path: &Path) -> BString {
        let typed = || <[u8]>::from_path(host_path).unwrap_or_default();
        let Some(root_id) = self.root.id() else { return typed().into() };
        if let Some(rest) = below(host_path, root_id) {
            return rest;
        }
        // The root may have been entered through a link to somewhere below its top.
        // The last component keeps its name: a link there is resolved inside.
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

    /// The path on this machine of a path inside the root, every link resolved: what
    /// a folder walk starts from. Unchanged on the real root.
    ///
    /// # Errors
    /// [`HostError::Read`] where the path does not exist or cannot be reached.
    pub fn host_path(&self, inside: &BStr) -> Result<PathBuf, HostError> {
        let as_path = || PathBuf::from(inside.to_os_str_lossy().into_owned());
        if self.is_real_root() {
            return Ok(as_path());
        }
        self.root
            .host_path(inside)
            .map_err(|errno| HostError::Read { path: as_path(), source: io_error(errno) })
    }

    /// Opens what `stat` has just described, or takes what is known of it.
    fn opened(&self, path: &[u8], stat: &Stat) -> Result<Arc<OpenedFile>, Errno> {
        if let Some(known) = self.files.get(&stat.id)
            && known.fingerprint == stat.fingerprint
        {
            return known.result;
        }
        let started = fingerprint::now();
        let opened = object_file::open(&self.root, path, stat);
        let keep = match &opened.result {
            Ok(_) => opened.readable,
            // A refusal follows from mode, owner and ACL, which ctime covers.
            Err(errno) => matches!(*errno, Errno::ACCES | Errno::PERM),
        };
        if keep && !opened.stat.fingerprint.may_change_unseen(started) {
            let known =
                KnownFile { fingerprint: opened.stat.fingerprint, result: opened.result.clone() };
            self.files.insert(opened.stat.id, known);
        }
        opened.result
    }
}

/// An errno as the error type of the standard library, for messages.
pub(crate) fn io_error(errno: Errno) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno.0)
}

/// What is left of `path` below the first of its ancestors that is the directory
/// `root`; `None` where there is none or where the rest climbs out again.
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
