//! A file system as it would be with some objects changed and some files added, without
//! anything being written: what [`crate::strategy::planned`] follows a start on.

use std::cell::RefCell;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Errno, FileId, FileKind, FileSystem, OpenedFile};
use crate::elf::{ElfError, ObjectView};

/// Links followed in one walk (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// The device of what was added.
const ADDED: u64 = u64::MAX;

/// What becomes of an object: its path, links resolved, and the object as it is give the
/// object as it would be; `None` where it stays.
pub type Edit<'a> = Box<dyn Fn(&BStr, &ObjectView) -> Option<ObjectView> + 'a>;

/// A file system with changes laid over it. A path is what is added there, else what the
/// file system below has.
pub struct Overlay<'a> {
    base: &'a dyn FileSystem,
    objects: FxHashMap<FileId, Arc<ObjectView>>,
    edit: Option<Edit<'a>>,
    /// What the edits gave, by path, links resolved.
    edited: RefCell<FxHashMap<BString, Option<Arc<ObjectView>>>>,
    added: Arc<Additions>,
}

/// What is added to a file system: found out once, laid over it as often as is wished.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Each of them, and its number.
    at: FxHashMap<BString, (u64, Added)>,
    /// Last components of what was added: a path that ends otherwise is the base's.
    names: FxHashSet<BString>,
}

#[derive(Clone, Debug)]
enum Added {
    Directory,
    Link(BString),
    File(Arc<[u8]>),
}

impl<'a> Overlay<'a> {
    /// Nothing changed yet.
    #[must_use]
    pub fn new(base: &'a dyn FileSystem) -> Self {
        let (objects, edited) = (FxHashMap::default(), RefCell::default());
        Self { base, objects, edit: None, edited, added: Arc::default() }
    }

    /// With what was added to another overlay of the same files.
    #[must_use]
    pub fn with_additions(mut self, added: Arc<Additions>) -> Self {
        self.added = added;
        self
    }

    /// With objects that are edited when they are opened, so that only those are that a start
    /// comes to.
    #[must_use]
    pub fn with_edits(mut self, edit: Edit<'a>) -> Self {
        self.edit = Some(edit);
        self
    }

    /// What was added, for another overlay.
    #[must_use]
    pub fn additions(&self) -> Arc<Additions> {
        Arc::clone(&self.added)
    }

    /// Presents a file, by whatever path it is opened, as another object.
    pub fn set_object(&mut self, id: FileId, view: ObjectView) {
        self.objects.insert(id, Arc::new(view));
    }

    /// Adds a directory at an absolute path.
    pub fn add_dir(&mut self, path: &BStr) {
        self.add(path, Added::Directory);
    }

    /// Adds a symbolic link, or replaces what is there.
    pub fn add_link(&mut self, path: &BStr, target: &BStr) {
        self.add(path, Added::Link(target.to_owned()));
    }

    /// Adds a regular file, or replaces what is there.
    pub fn add_file(&mut self, path: &BStr, bytes: &[u8]) {
        self.add(path, Added::File(bytes.into()));
    }

    fn add(&mut self, path: &BStr, what: Added) {
        let path = self.place(path);
        let added = Arc::make_mut(&mut self.added);
        added.names.insert(last(&path).into());
        let number = added.at.len() as u64 + 1;
        added.at.entry(path).or_insert((number, Added::Directory)).1 = what;
    }

    /// The path with the part that the base has resolved, the rest by its letters.
    fn place(&self, path: &BStr) -> BString {
        let mut whole =
            if path.starts_with(b"/") { BString::default() } else { self.current_dir() };
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match name {
                b"." => {}
                b".." => {
                    let end = whole.rfind_byte(b'/').unwrap_or(0);
                    whole.truncate(end);
                }
                _ => {
                    if whole.last() != Some(&b'/') {
                        whole.push(b'/');
                    }
                    whole.extend_from_slice(name);
                }
            }
            // No link to a directory is ever added, so that the rest is plain.
            if !self.added.at.contains_key(&whole)
                && let Ok(real) = self.base.canonicalize(whole.as_ref())
            {
                whole = real;
            }
            if whole == "/" {
                whole.clear();
            }
        }
        if whole.is_empty() { "/".into() } else { whole }
    }

    /// What was added at a path, links among it followed; `Err` is the path in the base.
    fn find(&self, path: &BStr) -> Result<(BString, &(u64, Added)), BString> {
        let name = last(path);
        if !self.added.names.contains(BStr::new(name)) && !self.passes_added_dir(path) {
            return Err(path.to_owned());
        }
        let mut place = self.place(path);
        let passes = self.passes_added(path);
        for followed in 0..MAX_LINKS {
            match self.added.at.get(&place) {
                Some((_, Added::Link(target))) => {
                    place = self.place(joined(&place, target).as_ref())
                }
                Some(added) => return Ok((place, added)),
                // The way back out of what is added is known here alone.
                None if followed > 0 || passes => return Err(place),
                None => return Err(path.to_owned()),
            }
        }
        Err(path.to_owned())
    }

    /// True where what is added lies on the way of a path.
    fn passes_added(&self, path: &[u8]) -> bool {
        let ends = path.find_iter("/").map(|end| BStr::new(&path[..end]));
        ends.into_iter().any(|part| self.added.at.contains_key(part))
    }

    /// True where a path ends in a way that the name of its last component does not show.
    fn passes_added_dir(&self, path: &[u8]) -> bool {
        !self.added.at.is_empty() && (path.ends_with(b"/") || path.ends_with(b"/.."))
    }

    /// The object at a path of the base as it would be.
    fn edited(&self, path: &BStr, file: &OpenedFile) -> Option<Arc<ObjectView>> {
        if let Some(view) = self.objects.get(&file.id) {
            return Some(Arc::clone(view));
        }
        let (edit, Ok(now)) = (self.edit.as_ref()?, &file.object) else { return None };
        let path = self.base.canonicalize(path).ok()?;
        let mut edited = self.edited.borrow_mut();
        let result = edited.entry(path).or_insert_with_key(|path| {
            let view = edit(path.as_ref(), now);
            view.map(Arc::new)
        });
        result.clone()
    }
}

/// What the opening of an added file or directory gives.
fn opened(number: u64, added: &Added) -> Arc<OpenedFile> {
    let id = FileId { dev: ADDED, ino: number };
    let (len, head, error) = match added {
        Added::File(bytes) => {
            let head = bytes[..bytes.len().min(64)].to_vec();
            (bytes.len() as u64, Ok(head), ElfError::NotElf)
        }
        Added::Directory | Added::Link(_) => {
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
        Ok(Arc::new(OpenedFile { object: Ok(view), ..(*file).clone() }))
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        match self.find(path) {
            Ok((_, (_, Added::File(_)))) => Ok(FileKind::File),
            Ok(_) => Ok(FileKind::Directory),
            Err(path) => self.base.stat(path.as_ref()),
        }
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        match self.find(path) {
            Ok((_, (_, Added::File(bytes)))) => Ok(Arc::clone(bytes)),
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

    fn current_dir(&self) -> BString {
        self.base.current_dir()
    }
}

/// The last component of a path.
fn last(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    &path[start..end]
}

/// Where a link at `place` leads.
fn joined(place: &[u8], target: &[u8]) -> BString {
    if target.starts_with(b"/") {
        return target.into();
    }
    let dir = place.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    [&place[..dir], target].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn additions_made_once_serve_every_view_and_are_not_shared_further() {
        let base = MemFs::new().dir("/lib").file("/lib/old", "old");
        let mut first = Overlay::new(&base);
        first.add_file(BStr::new("/lib/new"), b"new");
        let again = MemFs::new().dir("/lib");
        let mut second = Overlay::new(&again).with_additions(first.additions());
        assert_eq!(second.read(BStr::new("/lib/new")).as_deref(), Ok(b"new".as_slice()));
        assert_eq!(second.read(BStr::new("/lib/old")), Err(Errno::NOENT));
        // What one view adds is its own.
        second.add_file(BStr::new("/lib/more"), b"more");
        assert_eq!(first.read(BStr::new("/lib/more")), Err(Errno::NOENT));
        assert_eq!(first.read(BStr::new("/lib/old")).as_deref(), Ok(b"old".as_slice()));
    }
}
