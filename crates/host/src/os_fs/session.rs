//! The file system as one closure walk, or a few in a row, see it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use becalm_core::fs::{Errno, FileKind, FileSystem, OpenedFile};
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::listing::{KnownDir, Listing};
use super::{OsFs, object_file};
use crate::facts::Facts;
use crate::fingerprint::Fingerprint;

/// Maximum length of a path for the kernel, including its NUL (`PATH_MAX`).
const PATH_MAX: usize = 4096;
/// Maximum size of a cached whole file; a loader cache of 10,000 libraries has 1 MB.
const LARGEST_KEPT: usize = 4 << 20;

/// The file system as one closure walk, or a few in a row, see it, on top of the caches that all
/// walks share. A session reads the state of each directory once and then relies on it. For use in
/// one thread.
#[derive(Debug)]
pub struct Session<'a> {
    os: &'a OsFs,
    /// Key: the path as written. The kernel resolves symbolic links in it.
    dirs: RefCell<FxHashMap<BString, Rc<Dir>>>,
    opened: RefCell<FxHashMap<BString, Known<OpenedFile>>>,
    /// Whole files with the content of the first read.
    read: RefCell<FxHashMap<BString, Known<[u8]>>>,
    /// Paths with symbolic links resolved. The run paths of a store repeat the same directories.
    real: RefCell<FxHashMap<BString, Result<BString, Errno>>>,
}

/// A cached result of a system call.
type Known<T> = Result<Arc<T>, Errno>;

/// A directory and the path by which it was reached.
type Place<'p> = (&'p [u8], Rc<Dir>);

/// The result of looking up a directory path that can be searched, or the errno with which every lookup in it
/// fails: the path does not exist, is not a directory, or may not be searched.
type Dir = Result<SeenDir, Errno>;

/// A directory in the state that this session has read.
#[derive(Debug)]
struct SeenDir {
    fingerprint: Fingerprint,
    known: Arc<KnownDir>,
    /// Set once this session has tried to list it.
    listing: OnceCell<Option<Arc<Listing>>>,
}

impl SeenDir {
    fn lacks(&self, name: &[u8]) -> bool {
        self.listing.get().and_then(Option::as_ref).is_some_and(|listing| listing.lacks(name))
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(os: &'a OsFs) -> Self {
        Self {
            os,
            dirs: RefCell::default(),
            opened: RefCell::default(),
            read: RefCell::default(),
            real: RefCell::default(),
        }
    }

    /// Calls `stat` on a path, or answers from the caches if they are certain.
    fn look_up(&self, path: &[u8]) -> Result<Facts, Errno> {
        check(path)?;
        let place = self.place_of(path)?;
        self.stat_in(place, path)
    }

    /// Returns the directory of a path and that directory's path; `None` for `/`. Returns an error
    /// if the caches are certain how the lookup fails.
    fn place_of<'p>(&self, path: &'p [u8]) -> Result<Option<Place<'p>>, Errno> {
        let Some((dir, name)) = split(path) else { return Ok(None) };
        let seen = self.dir(dir);
        match &*seen {
            Err(errno) => Err(*errno),
            Ok(seen) if is_plain(name) && seen.lacks(name) => Err(Errno::NOENT),
            Ok(_) => Ok(Some((dir, seen))),
        }
    }

    /// Calls `stat` on a path in `place`.
    fn stat_in(&self, place: Option<Place<'_>>, path: &[u8]) -> Result<Facts, Errno> {
        let stat = self.os.root.stat(path);
        if let (Err(Errno::NOENT), Some((dir, seen))) = (&stat, place) {
            self.note_miss(dir, &seen);
        }
        stat
    }

    /// Returns the result of looking up a directory path. It checks the ancestors first: if a
    /// listing lacks one of them, everything below is absent.
    fn dir(&self, path: &[u8]) -> Rc<Dir> {
        let seen = |path: &[u8]| self.dirs.borrow().get(path.as_bstr()).map(Rc::clone);
        if let Some(dir) = seen(path) {
            return dir;
        }
        let mut unseen = vec![path];
        let mut nearest = None;
        while let Some((parent, _)) = unseen.last().and_then(|path| split(path)) {
            nearest = seen(parent);
            if nearest.is_some() {
                break;
            }
            unseen.push(parent);
        }
        for place in unseen.into_iter().rev() {
            let parent = nearest.as_deref();
            if let Some(errno) = inherited(parent, place) {
                // Everything below fails in the same way, so only the whole path gets an entry.
                let fails = Rc::new(Err(errno));
                self.dirs.borrow_mut().insert(path.into(), Rc::clone(&fails));
                return fails;
            }
            let here = Rc::new(self.look_at(place, parent));
            self.dirs.borrow_mut().insert(place.into(), Rc::clone(&here));
            nearest = Some(here);
        }
        nearest.unwrap_or_else(|| Rc::new(Err(Errno::NOENT)))
    }

    /// Looks up a directory path whose parent is already known.
    fn look_at(&self, path: &[u8], parent: Option<&Dir>) -> Dir {
        let stat = self.os.root.stat(&dot_of(path));
        if let (Err(Errno::NOENT), Some(dir), Some((parent, _))) = (&stat, parent, split(path)) {
            self.note_miss(parent, dir);
        }
        let fingerprint = stat?.fingerprint;
        let known = self.os.dirs.get(&fingerprint).unwrap_or_else(|| {
            let new = Arc::<KnownDir>::default();
            self.os.dirs.insert(fingerprint, Arc::clone(&new), 1);
            new
        });
        let listing = known.listing.get().map(|known| Some(Arc::clone(known)));
        let listing = listing.map_or_else(OnceCell::new, OnceCell::from);
        Ok(SeenDir { fingerprint, known, listing })
    }

    /// Counts a miss found by a system call, and lists the directory after enough misses.
    fn note_miss(&self, path: &[u8], dir: &Dir) {
        let Ok(seen) = dir else { return };
        if seen.listing.get().is_none() && seen.known.missed() {
            let list = || seen.known.list(&self.os.root, &dot_of(path), &seen.fingerprint);
            seen.listing.get_or_init(list);
        }
    }
}

impl FileSystem for Session<'_> {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        check(path)?;
        // Most paths end here: they are absent from their directory's listing.
        let place = self.place_of(path)?;
        if let Some(known) = self.opened.borrow().get(path) {
            return known.clone();
        }
        let stat = self.stat_in(place, path)?;
        let opened = self.os.opened(path, &stat);
        self.opened.borrow_mut().insert(path.into(), opened.clone());
        opened
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        // The key "" of the directories is the current directory; as a path it is an error.
        check(path)?;
        // For a path already seen as a search dir, `<path>/.` and the path are absent together.
        if let Some(dir) = self.dirs.borrow().get(path) {
            match &**dir {
                Ok(_) => return Ok(FileKind::Directory),
                Err(Errno::NOENT) => return Err(Errno::NOENT),
                Err(_) => {}
            }
        }
        self.look_up(path).map(|stat| stat.kind())
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        if let Some(known) = self.read.borrow().get(path) {
            return known.clone();
        }
        let stat = self.look_up(path)?;
        let read = object_file::read_whole(&self.os.root, path, &stat);
        let bytes = read.map(|(.., bytes)| Arc::<[u8]>::from(bytes));
        if bytes.as_ref().map_or(true, |bytes| bytes.len() <= LARGEST_KEPT) {
            self.read.borrow_mut().insert(path.into(), bytes.clone());
        }
        bytes
    }

    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno> {
        check(path)?;
        if let Some(known) = self.real.borrow().get(path) {
            return known.clone();
        }
        let real = self.os.root.canonicalize(path);
        self.real.borrow_mut().insert(path.into(), real.clone());
        real
    }

    fn read_link(&self, path: &BStr) -> Result<BString, Errno> {
        check(path)?;
        self.os.root.read_link(path)
    }

    fn current_dir(&self) -> BString {
        if self.os.is_real_root()
            && let Ok(dir) = std::env::current_dir()
            && let Some(bytes) = <[u8]>::from_path(&dir)
        {
            return bytes.into();
        }
        BString::from("/")
    }
}

/// Returns the errno with which lookups in a directory path fail because of its parent.
fn inherited(parent: Option<&Dir>, path: &[u8]) -> Option<Errno> {
    match (parent?, split(path)?) {
        (Err(errno), _) => Some(*errno),
        (Ok(seen), (_, name)) => (is_plain(name) && seen.lacks(name)).then_some(Errno::NOENT),
    }
}

/// Returns the errors that the kernel returns before it looks up anything (`getname`).
fn check(path: &[u8]) -> Result<(), Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if path.len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    if path.contains(&0) {
        // A C string ends at the NUL, and no file has the full name.
        return Err(Errno::NOENT);
    }
    Ok(())
}

/// Splits a path into its directory and its last component, ignoring slashes at the end and
/// repeated slashes. The directory is `/`, or empty for the current one, if nothing else precedes
/// the component. Returns `None` for `/` and the empty path.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let path = &path[..end];
    let Some(slash) = path.iter().rposition(|&b| b == b'/') else {
        return Some((b"", path));
    };
    let dir_end = path[..slash].iter().rposition(|&b| b != b'/').map_or(1, |last| last + 1);
    Some((&path[..dir_end], &path[slash + 1..]))
}

/// Returns true for a name that is looked up in its directory; `.` and `..` are not.
fn is_plain(name: &[u8]) -> bool {
    name != b"." && name != b".."
}

/// Returns the path by which a directory's state is read. Resolving the dot requires the same as
/// resolving any name in the directory: it is a directory and may be searched.
fn dot_of(path: &[u8]) -> Vec<u8> {
    let mut dot = Vec::with_capacity(path.len() + 2);
    dot.extend_from_slice(path);
    if !path.is_empty() && path != b"/" {
        dot.push(b'/');
    }
    dot.push(b'.');
    dot
}
