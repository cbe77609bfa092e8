//! The view of the disk that one closure walk has, or a few in a row.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use becalm_core::fs::{Errno, FileId, FileKind, FileSystem, OpenedFile};
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use super::fingerprint::{Fingerprint, Stat};
use super::listing::{KnownDir, Listing};
use super::{OsFs, object_file};

/// Bytes of the longest path the kernel takes, its NUL included (`PATH_MAX`).
const PATH_MAX: usize = 4096;
/// Bytes of a whole file that is kept; a loader cache of 10,000 libraries has 1 MB.
const LARGEST_KEPT: usize = 4 << 20;

/// What one closure walk, or a few in a row, have seen, over what all walks know. Each
/// directory is looked at once; then the session relies on it. For one thread.
#[derive(Debug)]
pub struct Session<'a> {
    os: &'a OsFs,
    /// By the path as written: what it leads to is the kernel's business.
    dirs: RefCell<FxHashMap<BString, Rc<Dir>>>,
    opened: RefCell<FxHashMap<BString, Known<OpenedFile>>>,
    /// Whole files, as they were first read.
    read: RefCell<FxHashMap<BString, Known<[u8]>>>,
    /// Paths with their links resolved: the run paths of a store name the same directories.
    real: RefCell<FxHashMap<BString, Result<BString, Errno>>>,
}

/// What a system call gave, kept.
type Known<T> = Result<Arc<T>, Errno>;

/// A directory, with the path it was reached by.
type Place<'p> = (&'p [u8], Rc<Dir>);

/// What looking up a name in a directory path comes to.
#[derive(Debug)]
enum Dir {
    /// Every look-up fails like this: the path leads nowhere, to no directory, or to
    /// one that may not be searched.
    Fails(Errno),
    /// A directory that can be searched.
    Is(SeenDir),
}

/// A directory in the state in which this session saw it.
#[derive(Debug)]
struct SeenDir {
    id: FileId,
    fingerprint: Fingerprint,
    known: Arc<KnownDir>,
    listing: RefCell<Option<Arc<Listing>>>,
    /// Set once this session has tried to list it.
    tried: Cell<bool>,
}

impl SeenDir {
    fn lacks(&self, name: &[u8]) -> bool {
        self.listing.borrow().as_ref().is_some_and(|listing| listing.lacks(name))
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

    /// `stat` of a path, answered from what is known where that is certain.
    fn look_up(&self, path: &[u8]) -> Result<Stat, Errno> {
        let place = self.place_of(path)?;
        self.stat_in(place, path)
    }

    /// The directory of a path and the path of that; `None` for `/`. An error where it
    /// is known how looking up the path fails.
    fn place_of<'p>(&self, path: &'p [u8]) -> Result<Option<Place<'p>>, Errno> {
        check(path)?;
        let Some((dir, name)) = split(path) else { return Ok(None) };
        let seen = self.dir(dir);
        match &*seen {
            Dir::Fails(errno) => Err(*errno),
            Dir::Is(seen) if is_plain(name) && seen.lacks(name) => Err(Errno::NOENT),
            Dir::Is(_) => Ok(Some((dir, seen))),
        }
    }

    /// `stat` of a path that lies in `place`.
    fn stat_in(&self, place: Option<Place<'_>>, path: &[u8]) -> Result<Stat, Errno> {
        let stat = self.os.root.stat(path);
        if let (Err(Errno::NOENT), Some((dir, seen))) = (&stat, place) {
            self.note_miss(dir, &seen);
        }
        stat
    }

    /// What look-ups in a directory path come to. Looks at the ancestors first: a
    /// name that one of them is known to lack makes everything below it absent.
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
                // The same for all that is left of the path; only the whole of it is
                // worth a place in the map.
                let fails = Rc::new(Dir::Fails(errno));
                self.dirs.borrow_mut().insert(path.into(), Rc::clone(&fails));
                return fails;
            }
            let here = Rc::new(self.look_at(place, parent));
            self.dirs.borrow_mut().insert(place.into(), Rc::clone(&here));
            nearest = Some(here);
        }
        nearest.unwrap_or_else(|| Rc::new(Dir::Fails(Errno::NOENT)))
    }

    /// Looks at one directory path whose parent has been looked at.
    fn look_at(&self, path: &[u8], parent: Option<&Dir>) -> Dir {
        match self.os.root.stat(&dot_of(path)) {
            Ok(stat) => {
                let known = self.os.dirs.get_or_insert_with(stat.id, Arc::default);
                let listing = RefCell::new(known.listing(&stat.fingerprint));
                let tried = Cell::new(listing.borrow().is_some());
                Dir::Is(SeenDir {
                    id: stat.id,
                    fingerprint: stat.fingerprint,
                    known,
                    listing,
                    tried,
                })
            }
            Err(errno) => {
                if let (Errno::NOENT, Some(dir), Some((parent, _))) = (errno, parent, split(path)) {
                    self.note_miss(parent, dir);
                }
                Dir::Fails(errno)
            }
        }
    }

    /// Counts a miss found by system call, and lists the directory when there have
    /// been enough.
    fn note_miss(&self, path: &[u8], dir: &Dir) {
        let Dir::Is(seen) = dir else { return };
        if seen.tried.get() || !seen.known.missed() {
            return;
        }
        seen.tried.set(true);
        let listing = seen.known.list(&self.os.root, &dot_of(path), seen.id, &seen.fingerprint);
        *seen.listing.borrow_mut() = listing;
    }
}

impl FileSystem for Session<'_> {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        // Most paths end here: they are absent, and the directory's listing says so.
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
        // The key "" of the directories is the current one; as a path it leads nowhere.
        check(path)?;
        // A path already seen as a search dir: its absence is that of `<path>/.`.
        if let Some(dir) = self.dirs.borrow().get(path) {
            match &**dir {
                Dir::Is(_) => return Ok(FileKind::Directory),
                Dir::Fails(Errno::NOENT) => return Err(Errno::NOENT),
                Dir::Fails(_) => {}
            }
        }
        self.look_up(path).map(|stat| stat.kind)
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        if let Some(known) = self.read.borrow().get(path) {
            return known.clone();
        }
        let stat = self.look_up(path)?;
        let bytes = object_file::read_whole(&self.os.root, path, &stat).map(Arc::<[u8]>::from);
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

/// How look-ups in a directory path must fail after what was seen of its parent.
fn inherited(parent: Option<&Dir>, path: &[u8]) -> Option<Errno> {
    match (parent?, split(path)?) {
        (Dir::Fails(errno), _) => Some(*errno),
        (Dir::Is(seen), (_, name)) => (is_plain(name) && seen.lacks(name)).then_some(Errno::NOENT),
    }
}

/// What the kernel refuses before it looks at anything (`getname`).
fn check(path: &[u8]) -> Result<(), Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if path.len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    if path.contains(&0) {
        // No C string holds one; nothing is called that.
        return Err(Errno::NOENT);
    }
    Ok(())
}

/// The directory path and the last component; slashes at the end and doubled ones
/// between them are dropped. The directory is `/` or empty (the current one) where
/// nothing else is left; `None` for `/` and the empty path themselves.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let path = &path[..end];
    let Some(slash) = path.iter().rposition(|&b| b == b'/') else {
        return Some((b"", path));
    };
    let dir_end = path[..slash].iter().rposition(|&b| b != b'/').map_or(1, |last| last + 1);
    Some((&path[..dir_end], &path[slash + 1..]))
}

/// True for a name that is looked up, not walked.
fn is_plain(name: &[u8]) -> bool {
    name != b"." && name != b".."
}

/// The path by which a directory is looked at: resolving the dot needs what resolving
/// any name in it does, that it is a directory and may be searched.
fn dot_of(path: &[u8]) -> Vec<u8> {
    let mut dot = Vec::with_capacity(path.len() + 2);
    dot.extend_from_slice(path);
    if !path.is_empty() && path != b"/" {
        dot.push(b'/');
    }
    dot.push(b'.');
    dot
}
