//! Search directories and what the process knows of them.
//!
//! glibc keeps every directory that any run path or `LD_LIBRARY_PATH` names once for
//! the whole process, by its name (`GL(dl_all_dirs)`), with a status for each hwcaps
//! subdirectory: a directory that one object found absent is not tried for another.

use std::cell::Cell;
use std::rc::Rc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use crate::loader::LoaderFacts;
use crate::search::dst::{self, Tokens};
use crate::search::hwcaps;

/// Bytes of directory names kept at the most, hundreds of times what a real start
/// lists: `$ORIGIN` makes a run path grow as long as the object's own path allows.
const MAX_NAME_BYTES: usize = 32 << 20;

/// Directories of one search source, in order.
pub(super) type PathList = Rc<SearchPath>;

/// A list of directories: indexes into [`Dirs::list`]. Those that turn out to be
/// nowhere are left out of later walks, which costs each walk only what it still probes.
#[derive(Default)]
pub(super) struct SearchPath {
    dirs: Vec<usize>,
    /// By position: how many positions from there on are left out.
    left_out: Vec<Cell<usize>>,
}

impl SearchPath {
    fn new(dirs: Vec<usize>) -> Self {
        let left_out = vec![Cell::new(0); dirs.len()];
        Self { dirs, left_out }
    }

    /// True where no directory is left.
    pub(super) fn is_spent(&self) -> bool {
        self.next(0).is_none()
    }

    /// All directories, those that turned out to be nowhere too.
    pub(super) fn all(&self) -> &[usize] {
        &self.dirs
    }

    /// The first directory from position `from` on that is not left out, with its
    /// position.
    pub(super) fn next(&self, from: usize) -> Option<(usize, usize)> {
        let at = from + self.left_out.get(from)?.get();
        self.dirs.get(at).map(|&dir| (at, dir))
    }

    /// Leaves out what [`SearchPath::next`] gave for `from`.
    pub(super) fn leave_out_next(&self, from: usize) {
        let Some(count) = self.left_out.get(from) else { return };
        let behind = from + count.get() + 1;
        let more = self.left_out.get(behind).map_or(0, Cell::get);
        count.set(behind + more - from);
    }
}

/// What is known of a subdirectory that may be there (`enum r_dir_status`, without
/// `nonexisting`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Unknown,
    Existing,
}

/// `struct r_search_path_elem`.
pub(super) struct SearchDir {
    /// Ends in a slash, except the current directory, which is empty.
    pub(super) name: BString,
    /// The hwcaps subdirectories still tried: indexes into [`Dirs::subdirectories`], in
    /// order. `None` before the first walk; one that does not exist is taken out.
    folders: Option<Vec<(usize, Status)>>,
}

/// Every search directory of the process.
#[derive(Default)]
pub(super) struct Dirs {
    pub(super) list: Vec<SearchDir>,
    by_name: FxHashMap<BString, usize>,
    name_bytes: usize,
    /// hwcaps subdirectories in the order tried, the plain directory (empty) last.
    pub(super) subdirectories: Rc<[BString]>,
}

impl Dirs {
    pub(super) fn new(facts: &LoaderFacts) -> Self {
        Self {
            list: Vec::new(),
            by_name: FxHashMap::default(),
            name_bytes: 0,
            subdirectories: hwcaps::subdirectories(facts).into(),
        }
    }

    /// The compiled-in directories (`_dl_init_paths`). One that is there twice is found absent
    /// twice; a run path means the first.
    pub(super) fn system(&mut self, names: &[BString]) -> PathList {
        Rc::new(SearchPath::new(names.iter().map(|name| self.add(name.clone())).collect()))
    }

    /// `fillin_rpath`: the elements of a path, expanded, each directory once. `None`
    /// where the names of all directories take more memory than becalm gives them.
    pub(super) fn fill_in(
        &mut self,
        path: &BStr,
        is_separator: impl Fn(u8) -> bool,
        tokens: &Tokens<'_>,
    ) -> Option<PathList> {
        let mut result: Vec<usize> = Vec::new();
        let mut listed = rustc_hash::FxHashSet::default();
        for element in path.split(|&byte| is_separator(byte)) {
            let Some(name) = directory_name(BStr::new(element), tokens) else { continue };
            let dir = self.entry(name);
            if self.name_bytes > MAX_NAME_BYTES {
                return None;
            }
            if listed.insert(dir) {
                result.push(dir);
            }
        }
        Some(Rc::new(SearchPath::new(result)))
    }

    /// The directory of that name, known before or new.
    fn entry(&mut self, name: BString) -> usize {
        if let Some(&known) = self.by_name.get(&name) {
            return known;
        }
        self.add(name)
    }

    fn add(&mut self, name: BString) -> usize {
        let index = self.list.len();
        self.name_bytes += name.len();
        self.by_name.entry(name.clone()).or_insert(index);
        self.list.push(SearchDir { name, folders: None });
        index
    }

    /// The subdirectory at position `at` of those of a directory that are still tried:
    /// its index into [`Dirs::subdirectories`] and what is known of it. A relative
    /// directory is never ignored, for the current directory may change.
    pub(super) fn folder(&mut self, dir: usize, at: usize) -> Option<(usize, Status)> {
        let count = self.subdirectories.len();
        let SearchDir { name, folders } = &mut self.list[dir];
        let absolute = name.first() == Some(&b'/');
        let status = if absolute { Status::Unknown } else { Status::Existing };
        let folders = folders.get_or_insert_with(|| (0..count).map(|cap| (cap, status)).collect());
        folders.get(at).copied()
    }

    /// The subdirectory at that position exists.
    pub(super) fn found(&mut self, dir: usize, at: usize) {
        if let Some(folders) = &mut self.list[dir].folders {
            folders[at].1 = Status::Existing;
        }
    }

    /// The subdirectory at that position does not exist; the next takes its place.
    pub(super) fn gone(&mut self, dir: usize, at: usize) {
        if let Some(folders) = &mut self.list[dir].folders {
            folders.remove(at);
        }
    }
}

/// One element as a directory name: tokens replaced, trailing slashes folded into one.
/// An empty element is the current directory; one that is empty after expansion is
/// left out.
pub(crate) fn directory_name(element: &BStr, tokens: &Tokens<'_>) -> Option<BString> {
    if element.is_empty() {
        return Some(BString::default());
    }
    let mut name = dst::expand(element, tokens)?;
    if name.is_empty() {
        return None;
    }
    while name.len() > 1 && name.last() == Some(&b'/') {
        name.pop();
    }
    if name.last() != Some(&b'/') {
        name.push(b'/');
    }
    Some(name)
}
