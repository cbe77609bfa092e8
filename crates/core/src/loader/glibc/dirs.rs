//! The search directories of a process and their status.
//!
//! glibc keeps one entry for each directory name in a run path or in `LD_LIBRARY_PATH`
//! (`GL(dl_all_dirs)`). The entry has a status for each hwcaps subdirectory, so that a directory
//! that was absent for one object is not tried for another.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use crate::loader::LoaderFacts;
use crate::search::dst::{self, Tokens};
use crate::search::hwcaps;

/// The limit on the bytes of all directory names, hundreds of times those of a real start. A
/// short run path can expand to megabytes, because each `$ORIGIN` adds a path of up to 4 KiB.
const MAX_NAME_BYTES: usize = 32 << 20;

/// The directories of one search source, in order (`struct r_search_path_struct`).
pub(super) type PathList = Rc<SearchPath>;

/// A list of directories, as indices of [`Dirs::list`].
#[derive(Default)]
pub(super) struct SearchPath {
    /// All directories, the absent ones included.
    pub(super) dirs: Vec<usize>,
    /// The positions of those that are not known to be absent, so that a walk takes time only for the
    /// directories that it probes.
    pub(super) tried: RefCell<BTreeSet<usize>>,
}

impl SearchPath {
    fn new(dirs: Vec<usize>) -> Self {
        let tried = RefCell::new((0..dirs.len()).collect());
        Self { dirs, tried }
    }
}

/// `struct r_search_path_elem`.
pub(super) struct SearchDir {
    /// The name with a slash at its end; empty for the current directory.
    pub(super) name: BString,
    /// The hwcaps subdirectories that are still tried, as indices of [`Dirs::subdirectories`], and
    /// their status (`enum r_dir_status`): true for `existing`, false for `unknown`. An entry that
    /// is `nonexisting` is removed. `None` before the first walk.
    tried: Option<Vec<(usize, bool)>>,
}

/// Every search directory of the process.
#[derive(Default)]
pub(super) struct Dirs {
    pub(super) list: Vec<SearchDir>,
    by_name: FxHashMap<BString, usize>,
    name_bytes: usize,
    /// The hwcaps subdirectories in the order of `capstr`. The last one is empty and means the
    /// directory itself.
    pub(super) subdirectories: Rc<[BString]>,
}

impl Dirs {
    pub(super) fn new(facts: &LoaderFacts) -> Self {
        Self { subdirectories: hwcaps::subdirectories(facts).into(), ..Self::default() }
    }

    /// Adds the compiled-in directories (`_dl_init_paths`). A directory that the list has twice
    /// gets two entries, each with a status; a run path uses the first.
    pub(super) fn system(&mut self, names: &[BString]) -> PathList {
        Rc::new(SearchPath::new(names.iter().map(|name| self.add(name.clone())).collect()))
    }

    /// `fillin_rpath`: expands the elements of a path and lists each directory once. Returns
    /// `None` if the names of all directories exceed the limit on their bytes.
    pub(super) fn fill_in(
        &mut self,
        path: &BStr,
        is_separator: impl Fn(u8) -> bool,
        tokens: &Tokens<'_>,
    ) -> Option<PathList> {
        let mut result: Vec<usize> = Vec::new();
        let mut listed = rustc_hash::FxHashSet::default();
        for element in path.split(|&byte| is_separator(byte)) {
            // An element that a DST or secure-execution mode forbids is left out. The others still
            // count.
            let Some(name) = directory_name(BStr::new(element), tokens) else { continue };
            // The name after expansion is compared: `$ORIGIN/../lib` of two objects in one
            // directory is one entry, while `/a/../b` and `/b` are two.
            let known = self.by_name.get(&name).copied();
            let dir = known.unwrap_or_else(|| self.add(name));
            // The limit counts names after expansion, because the text of a run path can be short.
            if self.name_bytes > MAX_NAME_BYTES {
                return None;
            }
            // A directory that the path names twice is tried once.
            if listed.insert(dir) {
                result.push(dir);
            }
        }
        Some(Rc::new(SearchPath::new(result)))
    }

    fn add(&mut self, name: BString) -> usize {
        let index = self.list.len();
        self.name_bytes += name.len();
        self.by_name.entry(name.clone()).or_insert(index);
        self.list.push(SearchDir { name, tried: None });
        index
    }

    /// Returns the subdirectory at position `at` among those of a directory that are still
    /// tried, as an index of [`Dirs::subdirectories`], and true if it is known to exist.
    pub(super) fn subdirectory(&mut self, dir: usize, at: usize) -> Option<(usize, bool)> {
        let count = self.subdirectories.len();
        let SearchDir { name, tried } = &mut self.list[dir];
        // `fillin_rpath` never ignores a relative directory, because the current directory may
        // change.
        let exists = name.first() != Some(&b'/');
        // The list is made at the first walk, because the walk may end before it reaches this
        // directory.
        let tried = tried.get_or_insert_with(|| (0..count).map(|cap| (cap, exists)).collect());
        tried.get(at).copied()
    }

    /// Sets the status of a subdirectory, or removes it if it does not exist.
    pub(super) fn set_status(&mut self, dir: usize, at: usize, exists: bool) {
        match &mut self.list[dir].tried {
            Some(tried) if exists => tried[at].1 = true,
            Some(tried) => _ = tried.remove(at),
            None => {}
        }
    }
}

/// Converts one element of a path into a directory name, as `fillin_rpath` does: DSTs are expanded
/// and trailing slashes become one. An empty element is the current directory. Returns `None` for
/// an element that is empty after expansion.
pub(crate) fn directory_name(element: &BStr, tokens: &Tokens<'_>) -> Option<BString> {
    // `fillin_rpath` expands only elements with text, so that an empty element is never dropped.
    if element.is_empty() {
        return Some(BString::default());
    }
    let mut name = dst::expand(element, tokens)?;
    if name.is_empty() {
        return None;
    }
    // The root directory keeps its slash.
    while name.len() > 1 && name.last() == Some(&b'/') {
        name.pop();
    }
    if name.last() != Some(&b'/') {
        name.push(b'/');
    }
    Some(name)
}
