//! An in-memory file system for tests with the kernel's errnos.
//!
//! It replaces the file system of `becalm-host`. The walk follows Linux's `fs/namei.c`: it checks the
//! search permission on a directory before it looks up a component, and follows at most forty
//! symbolic links. Every file belongs to another user, so that the permission bits for others count
//! (`0o004` to read, `0o001` to search a directory).
//!
//! ```
//! use becalm_core::fs::{Errno, FileSystem};
//! use becalm_core::fs::mem::{MemFs, ObjectBuilder};
//!
//! let fs = MemFs::new()
//!     .object("/opt/lib/libfoo.so.1", ObjectBuilder::library("libfoo.so.1"))
//!     .link("/opt/lib/libfoo.so", "libfoo.so.1");
//! assert!(fs.open("/opt/lib/libfoo.so".into()).is_ok());
//! assert_eq!(fs.open("/opt/lib/libbar.so".into()).unwrap_err(), Errno::NOENT);
//! ```

mod object;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::elf::{ElfError, ObjectView};
use crate::fs::{Errno, FileId, FileKind, FileSystem, OpenedFile};
use bstr::{BStr, BString};

pub use self::object::ObjectBuilder;

/// `PATH_MAX`: the limit on a path and its NUL, in bytes.
const PATH_MAX: usize = 4096;

/// `NAME_MAX`: the limit on a component, in bytes.
const NAME_MAX: usize = 255;
/// `MAXSYMLINKS`: the limit on links in one walk.
const MAX_LINKS: u32 = 40;
/// The length of the head of an opened file, in bytes.
const HEAD: usize = 64;
/// The inode number of the root directory.
const ROOT: usize = 0;

/// A file system in memory, built by a chain of calls. Missing parents are made, with links followed.
///
/// A builder method panics if its path cannot be made, because a parent is a file or a link without a
/// target. The fixture is wrong then.
#[derive(Clone, Debug)]
pub struct MemFs {
    inodes: Vec<Inode>,
    current_dir: Place,
}

#[derive(Clone, Debug)]
struct Inode {
    mode: u32,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    File { bytes: Vec<u8>, object: Result<Arc<ObjectView>, ElfError> },
    Directory(BTreeMap<BString, usize>),
    Link(BString),
    Fifo,
}

/// The names from the root to a directory entry, with their inodes.
type Place = Vec<(BString, usize)>;

impl Default for MemFs {
    fn default() -> Self {
        let root = Inode { mode: 0o755, content: Content::Directory(BTreeMap::new()) };
        Self { inodes: vec![root], current_dir: Place::new() }
    }
}

impl MemFs {
    /// Makes an empty root directory, which is also the current directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a directory (mode 0755) and its parents, unless they exist.
    #[must_use]
    pub fn dir(mut self, path: impl AsRef<[u8]>) -> Self {
        self.make_dir(path.as_ref());
        self
    }

    /// Makes a regular file (mode 0644) with these bytes. It is not an object.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref().to_vec();
        let error = if bytes.starts_with(b"\x7fELF") {
            ElfError::Malformed("the test says so")
        } else {
            ElfError::NotElf
        };
        self.add(path.as_ref(), 0o644, Content::File { bytes, object: Err(error) });
        self
    }

    /// Makes an object (mode 0755) whose first bytes are an ELF header with its
    /// [`crate::elf::Ident`].
    #[must_use]
    pub fn object(mut self, path: impl AsRef<[u8]>, view: impl Into<ObjectView>) -> Self {
        let view = view.into();
        let bytes = object::header_bytes(&view.ident);
        self.add(path.as_ref(), 0o755, Content::File { bytes, object: Ok(Arc::new(view)) });
        self
    }

    /// Makes a symbolic link at `path`; the target need not exist.
    #[must_use]
    pub fn link(mut self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.add(path.as_ref(), 0o777, Content::Link(target.as_ref().into()));
        self
    }

    /// Gives the file at `existing` a second name.
    #[must_use]
    pub fn hard_link(mut self, new: impl AsRef<[u8]>, existing: impl AsRef<[u8]>) -> Self {
        let inode = self.existing(existing.as_ref());
        self.enter(new.as_ref(), inode);
        self
    }

    /// Sets the mode bits (`07777`) of a file, links followed.
    #[must_use]
    pub fn mode(mut self, path: impl AsRef<[u8]>, bits: u32) -> Self {
        let inode = self.existing(path.as_ref());
        self.inodes[inode].mode = bits & 0o7777;
        self
    }

    /// Makes a FIFO (mode 0644). It opens, and `read` fails with `ENXIO`. A real reader would wait for
    /// a writer.
    #[must_use]
    pub fn fifo(mut self, path: impl AsRef<[u8]>) -> Self {
        self.add(path.as_ref(), 0o644, Content::Fifo);
        self
    }

    /// Sets the current directory, and makes it if it is missing.
    #[must_use]
    pub fn cwd(mut self, path: impl AsRef<[u8]>) -> Self {
        self.current_dir = self.make_dir(path.as_ref());
        self
    }

    /// Removes a name. An inode with a second name stays.
    #[must_use]
    pub fn remove(mut self, path: impl AsRef<[u8]>) -> Self {
        let (parent, name) = split(path.as_ref());
        let parent = self.existing(parent);
        self.entries(parent).remove(name);
        self
    }

    fn make_dir(&mut self, path: &[u8]) -> Place {
        let mut walk = Walk::unchecked(self, path);
        let mut missing = Vec::new();
        for name in components(path) {
            // After the first missing component all others are missing too.
            if !missing.is_empty() {
                missing.push(BString::from(name));
                continue;
            }
            match walk.step(name) {
                Ok(()) => {}
                Err(Errno::NOENT) => missing.push(BString::from(name)),
                Err(errno) => fixture_error(path, errno),
            }
        }
        let mut place = walk.place;
        for name in missing {
            let directory = Content::Directory(BTreeMap::new());
            self.inodes.push(Inode { mode: 0o755, content: directory });
            let inode = self.inodes.len() - 1;
            let parent = last(&place);
            self.entries(parent).insert(name.clone(), inode);
            place.push((name, inode));
        }
        place
    }

    fn add(&mut self, path: &[u8], mode: u32, content: Content) {
        self.inodes.push(Inode { mode, content });
        let inode = self.inodes.len() - 1;
        self.enter(path, inode);
    }

    fn enter(&mut self, path: &[u8], inode: usize) {
        let (parent, name) = split(path);
        let parent = last(&self.make_dir(parent));
        self.entries(parent).insert(name.into(), inode);
    }

    fn existing(&self, path: &[u8]) -> usize {
        let mut walk = Walk::unchecked(self, path);
        match walk.path(path) {
            Ok(()) => last(&walk.place),
            Err(errno) => fixture_error(path, errno),
        }
    }

    fn entries(&mut self, inode: usize) -> &mut BTreeMap<BString, usize> {
        match &mut self.inodes[inode].content {
            Content::Directory(entries) => entries,
            _ => panic!("a directory is needed where the fixture has none"),
        }
    }

    /// Resolves a path as the kernel does, beginning with the check of its length.
    fn resolve(&self, path: &[u8]) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let mut walk = Walk { fs: self, place: self.current_dir.clone(), links: 0, checked: true };
        walk.path(path)?;
        Ok(walk.place)
    }

    /// Resolves a path and checks the permission to read.
    fn resolve_readable(&self, path: &[u8]) -> Result<usize, Errno> {
        let inode = last(&self.resolve(path)?);
        if self.inodes[inode].mode & 0o004 == 0 {
            return Err(Errno::ACCES);
        }
        Ok(inode)
    }
}

/// One walk along a path.
struct Walk<'a> {
    fs: &'a MemFs,
    place: Place,
    links: u32,
    /// False for the builder, which ignores permission bits.
    checked: bool,
}

impl<'a> Walk<'a> {
    /// Starts a walk of the builder along `path`.
    fn unchecked(fs: &'a MemFs, path: &[u8]) -> Self {
        let place = if path.starts_with(b"/") { Place::new() } else { fs.current_dir.clone() };
        Walk { fs, place, links: 0, checked: false }
    }

    fn here(&self) -> &'a Inode {
        &self.fs.inodes[last(&self.place)]
    }

    fn path(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            self.place.clear();
        }
        for name in components(path) {
            self.step(name)?;
        }
        // A trailing slash requires a directory (`LOOKUP_DIRECTORY`).
        if path.ends_with(b"/") {
            self.directory()?;
        }
        Ok(())
    }

    fn step(&mut self, name: &[u8]) -> Result<(), Errno> {
        let entries = self.directory()?;
        // `may_lookup` comes before the name is checked, so that EACCES wins over ENAMETOOLONG.
        if self.checked && self.here().mode & 0o001 == 0 {
            return Err(Errno::ACCES);
        }
        match name {
            b"." => return Ok(()),
            b".." => {
                self.place.pop();
                return Ok(());
            }
            _ if name.len() > NAME_MAX => return Err(Errno::NAMETOOLONG),
            _ => {}
        }
        let inode = *entries.get(BStr::new(name)).ok_or(Errno::NOENT)?;
        if let Content::Link(target) = &self.fs.inodes[inode].content {
            self.links += 1;
            if self.links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            return self.path(target);
        }
        self.place.push((name.into(), inode));
        Ok(())
    }

    fn directory(&self) -> Result<&'a BTreeMap<BString, usize>, Errno> {
        match &self.here().content {
            Content::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }
}

impl FileSystem for MemFs {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        let number = self.resolve_readable(path)?;
        let inode = &self.inodes[number];
        let (len, head, object) = match &inode.content {
            Content::File { bytes, object } => {
                let head = bytes[..bytes.len().min(HEAD)].to_vec();
                (bytes.len() as u64, Ok(head), object.clone())
            }
            Content::Directory(_) => {
                (4096, Err(Errno::ISDIR), Err(ElfError::Unreadable(Errno::ISDIR.0)))
            }
            Content::Fifo | Content::Link(_) => {
                (0, Err(Errno::NXIO), Err(ElfError::Unreadable(Errno::NXIO.0)))
            }
        };
        let id = FileId { dev: 1, ino: number as u64 + 1 };
        Ok(Arc::new(OpenedFile { id, mode: inode.mode, len, head, object }))
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        let inode = last(&self.resolve(path)?);
        Ok(match self.inodes[inode].content {
            Content::File { .. } => FileKind::File,
            Content::Directory(_) => FileKind::Directory,
            Content::Fifo | Content::Link(_) => FileKind::Other,
        })
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        match &self.inodes[self.resolve_readable(path)?].content {
            Content::File { bytes, .. } => Ok(bytes.as_slice().into()),
            Content::Directory(_) => Err(Errno::ISDIR),
            Content::Fifo | Content::Link(_) => Err(Errno::NXIO),
        }
    }

    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno> {
        Ok(path_of(&self.resolve(path)?))
    }

    fn read_link(&self, path: &BStr) -> Result<BString, Errno> {
        let (dir, name) = split(path);
        let dir = if dir.is_empty() { self.current_dir.clone() } else { self.resolve(dir)? };
        let inode = &self.inodes[last(&dir)];
        let Content::Directory(entries) = &inode.content else { return Err(Errno::NOTDIR) };
        if inode.mode & 0o001 == 0 {
            return Err(Errno::ACCES);
        }
        let entry = entries.get(BStr::new(name)).ok_or(Errno::NOENT)?;
        match &self.inodes[*entry].content {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    fn current_dir(&self) -> BString {
        path_of(&self.current_dir)
    }
}

fn path_of(place: &Place) -> BString {
    let mut path = BString::default();
    for (name, _) in place {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

fn last(place: &Place) -> usize {
    place.last().map_or(ROOT, |(_, inode)| *inode)
}

/// Splits a path into its directory, with its slash, and its last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

fn fixture_error(path: &[u8], errno: Errno) -> ! {
    panic!("the fixture cannot have {}: errno {}", BStr::new(path), errno.0)
}
