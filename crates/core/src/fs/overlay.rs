//! A file system with some objects changed and some files added, in memory only.
//! [`crate::strategy::planned`] predicts a start on it.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Serialize, Serializer};

use super::{Errno, FileId, FileKind, FileSystem, OpenedFile};
use crate::elf::{ElfError, ObjectView};
use crate::lossy::lossy;
use crate::path;

/// The limit on links in one walk (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// The device number of added files.
const ADDED: u64 = u64::MAX;

/// A function that returns the changed object of a file at a path, links resolved. It returns `None` for
/// an unchanged object.
pub type Edit<'a> = Box<dyn Fn(&BStr, &OpenedFile) -> Option<ObjectView> + 'a>;

/// A file system with changes. A path leads to the added file, or else to the file in the base.
pub struct Overlay<'a> {
    base: &'a dyn FileSystem,
    /// Edits objects when they are opened, so that only the opened ones cost time.
    pub edit: Option<Edit<'a>>,
    /// The added files, which another overlay of the same file system can share.
    pub(crate) added: Arc<Additions>,
}

/// The files added to a file system. Several overlays can share them.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Each added file and its inode number.
    at: FxHashMap<BString, (u64, Added)>,
    /// The last components of the added paths. A path with another one is in the base.
    names: FxHashSet<BString>,
}

/// The kind of creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Added {
    /// A directory.
    Directory,
    /// A symbolic link.
    Link {
        /// The target of the link.
        #[serde(serialize_with = "lossy")]
        target: BString,
    },
    /// A file.
    File {
        /// Its length in bytes.
        #[serde(rename = "length", serialize_with = "length")]
        bytes: Arc<[u8]>,
    },
}

fn length<S: Serializer>(bytes: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(bytes.len() as u64)
}

impl<'a> Overlay<'a> {
    /// Makes an overlay without changes.
    #[must_use]
    pub fn new(base: &'a dyn FileSystem) -> Self {
        Self { base, edit: None, added: Arc::default() }
    }

    /// Adds a file at an absolute path, or replaces an existing one.
    pub(crate) fn add(&mut self, path: &BStr, what: Added) {
        let path = self.place(path);
        // Another overlay that shares the additions keeps its own copy.
        let added = Arc::make_mut(&mut self.added);
        added.names.insert(last(&path).into());
        let number = added.at.len() as u64 + 1;
        added.at.entry(path).or_insert((number, Added::Directory)).1 = what;
    }

    /// Resolves links in the part of a path that exists in the base. The rest has no links, because links
    /// to directories are never added.
    fn place(&self, path: &BStr) -> BString {
        let path = self.absolute(path);
        let path = path::without_end_slashes(&path);
        // The kernel refuses a longer path.
        if path == "/" || path.len() >= path::PATH_MAX {
            return path.to_owned();
        }
        let dir = self.place(path::dir(path));
        let whole = match path::name(path).as_bytes() {
            b"." => dir,
            b".." => path::dir(&dir).to_owned(),
            name => path::join(&dir, name),
        };
        let real = || self.base.canonicalize(whole.as_ref()).ok();
        let real = if self.added.at.contains_key(&whole) { None } else { real() };
        real.unwrap_or(whole)
    }

    /// Finds the added file at a path, with added links followed. Returns the path in the base as
    /// `Err` if there is none.
    fn find(&self, path: &BStr) -> Result<(BString, &(u64, Added)), BString> {
        let name = last(path);
        if !self.added.names.contains(BStr::new(name)) && !self.passes_added_dir(path) {
            return Err(path.to_owned());
        }
        let mut place = self.place(path);
        let passes = self.passes_added(path);
        // As in the kernel's walk, too many links are an error; here the base reports it.
        for followed in 0..MAX_LINKS {
            match self.added.at.get(&place) {
                Some((_, Added::Link { target })) => {
                    place = self.place(path::of_target(&place, target).as_ref())
                }
                Some(added) => return Ok((place, added)),
                // The base does not know the added links and directories on the path.
                None if followed > 0 || passes => return Err(place),
                None => return Err(path.to_owned()),
            }
        }
        Err(path.to_owned())
    }

    /// Returns true if a path leads through an added file or directory.
    fn passes_added(&self, path: &[u8]) -> bool {
        let ends = path.find_iter("/").map(|end| BStr::new(&path[..end]));
        ends.into_iter().any(|part| self.added.at.contains_key(part))
    }

    /// Returns true if the last component of a path does not show whether the path is added.
    fn passes_added_dir(&self, path: &[u8]) -> bool {
        !self.added.at.is_empty() && (path.ends_with(b"/") || path.ends_with(b"/.."))
    }

    /// Returns the changed object at a path of the base.
    fn edited(&self, path: &BStr, file: &OpenedFile) -> Option<ObjectView> {
        let edit = self.edit.as_ref()?;
        edit(self.base.canonicalize(path).ok()?.as_ref(), file)
    }
}

/// Returns the result of `open` for an added file or directory.
fn opened(number: u64, added: &Added) -> Arc<OpenedFile> {
    let id = FileId { dev: ADDED, ino: number };
    let (len, head, error) = match added {
        Added::File { bytes } => {
            let head = bytes[..bytes.len().min(64)].to_vec();
            (bytes.len() as u64, Ok(head), ElfError::NotElf)
        }
        Added::Directory | Added::Link { .. } => {
            (4096, Err(Errno::ISDIR), ElfError::Unreadable(Errno::ISDIR.0))
        }
    };
    Arc::new(OpenedFile { id, mode: 0o755, len, head, object: Err(error) })
}

impl FileSystem for Overlay<'_> {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        let path = match self.find(path) {
            Ok((_, (number, added))) => return Ok(opened(*number, added)),
            Err(path) => path,
        };
        let file = self.base.open(path.as_ref())?;
        let Some(view) = self.edited(path.as_ref(), &file) else { return Ok(file) };
        Ok(Arc::new(OpenedFile { object: Ok(Arc::new(view)), ..(*file).clone() }))
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        match self.find(path) {
            Ok((_, (_, Added::File { .. }))) => Ok(FileKind::File),
            Ok(_) => Ok(FileKind::Directory),
            Err(path) => self.base.stat(path.as_ref()),
        }
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        match self.find(path) {
            Ok((_, (_, Added::File { bytes }))) => Ok(Arc::clone(bytes)),
            Ok(_) => Err(Errno::ISDIR),
            Err(path) => self.base.read(path.as_ref()),
        }
    }

    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno> {
        match self.find(path) {
            Ok((place, _)) => Ok(place),
            Err(path) => self.base.canonicalize(path.as_ref()),
        }
    }

    fn read_link(&self, path: &BStr) -> Result<BString, Errno> {
        let (dir, name) = path::split(path);
        // The last component is not followed, so only the directory is resolved.
        let dir = if dir.is_empty() { self.current_dir() } else { self.place(dir.as_bstr()) };
        match self.added.at.get(&path::join(&dir, name)) {
            Some((_, Added::Link { target })) => Ok(target.clone()),
            Some(_) => Err(Errno::INVAL),
            None => self.base.read_link(path),
        }
    }

    fn current_dir(&self) -> BString {
        self.base.current_dir()
    }
}

/// The last component of a path.
fn last(path: &[u8]) -> &[u8] {
    path::name(path::without_end_slashes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn additions_are_copied_to_another_overlay_and_later_ones_are_not() {
        let base = MemFs::new().dir("/lib").file("/lib/old", "old");
        let mut first = Overlay::new(&base);
        first.add(BStr::new("/lib/new"), Added::File { bytes: (*b"new").into() });
        let again = MemFs::new().dir("/lib");
        let mut second = Overlay { added: Arc::clone(&first.added), ..Overlay::new(&again) };
        assert_eq!(second.read(BStr::new("/lib/new")).as_deref(), Ok(b"new".as_slice()));
        assert_eq!(second.read(BStr::new("/lib/old")), Err(Errno::NOENT));
        // A later addition is not shared.
        second.add(BStr::new("/lib/more"), Added::File { bytes: (*b"more").into() });
        assert_eq!(first.read(BStr::new("/lib/more")), Err(Errno::NOENT));
        assert_eq!(first.read(BStr::new("/lib/old")).as_deref(), Ok(b"old".as_slice()));
    }
}
