//! Search directories and what the process knows of them.
//!
//! glibc keeps every directory that any run path or `LD_LIBRARY_PATH` names once for
//! the whole process, by its name (`GL(dl_all_dirs)`), with a status for each hwcaps
//! subdirectory: a directory that one object found absent is not tried for another.

use std::rc::Rc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use crate::loader::LoaderFacts;
use crate::search::dst::{self, Tokens};
use crate::search::hwcaps;

/// Directories of one search source, in order: indexes into [`Dirs`].
pub(super) type PathList = Rc<[usize]>;

/// `enum r_dir_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Unknown,
    Existing,
    Nonexisting,
}

/// `struct r_search_path_elem`.
pub(super) struct SearchDir {
    /// Ends in a slash, except the current directory, which is empty.
    pub(super) name: BString,
    /// One a subdirectory of [`Dirs::subdirectories`].
    pub(super) status: Vec<Status>,
}

/// Every search directory of the process.
#[derive(Default)]
pub(super) struct Dirs {
    pub(super) list: Vec<SearchDir>,
    by_name: FxHashMap<BString, usize>,
    /// hwcaps subdirectories in the order tried, the plain directory (empty) last.
    pub(super) subdirectories: Rc<[BString]>,
}

impl Dirs {
    pub(super) fn new(facts: &LoaderFacts) -> Self {
        Self {
            list: Vec::new(),
            by_name: FxHashMap::default(),
            subdirectories: hwcaps::subdirectories(facts).into(),
        }
    }

    /// The compiled-in directories (`_dl_init_paths`).
    pub(super) fn system(&mut self, names: &[BString]) -> PathList {
        names.iter().map(|name| self.entry(name.clone())).collect()
    }

    /// `fillin_rpath`: the elements of a path, expanded, each directory once.
    pub(super) fn fill_in(
        &mut self,
        path: &BStr,
        is_separator: impl Fn(u8) -> bool,
        tokens: &Tokens<'_>,
    ) -> PathList {
        let mut result: Vec<usize> = Vec::new();
        let mut listed = rustc_hash::FxHashSet::default();
        for element in path.split(|&byte| is_separator(byte)) {
            let Some(name) = directory_name(BStr::new(element), tokens) else { continue };
            let dir = self.entry(name);
            if listed.insert(dir) {
                result.push(dir);
            }
        }
        result.into()
    }

    /// The directory of that name, known before or new. A relative one is never
    /// ignored, for the current directory may change.
    fn entry(&mut self, name: BString) -> usize {
        if let Some(&known) = self.by_name.get(&name) {
            return known;
        }
        let status = if name.first() == Some(&b'/') { Status::Unknown } else { Status::Existing };
        let index = self.list.len();
        self.by_name.insert(name.clone(), index);
        self.list.push(SearchDir { name, status: vec![status; self.subdirectories.len()] });
        index
    }
}

/// One element as a directory name: tokens replaced, trailing slashes folded into one.
/// An empty element is the current directory; one that is empty after expansion is
/// left out.
fn directory_name(element: &BStr, tokens: &Tokens<'_>) -> Option<BString> {
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
