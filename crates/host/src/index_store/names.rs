//! The limit on the paths by which one file is an object.

use becalm_core::fs::FileSystem;
use bstr::BString;
use rustc_hash::FxHashMap;

/// Maximum number of non-canonical paths per file that are resolved as objects of their own.
const MOST_NAMES: usize = 8;

/// Counts the non-canonical paths of each file.
///
/// Objects that need each other through `$ORIGIN/..` name each other by ever longer paths. No
/// process uses the long ones, because the object is loaded already.
#[derive(Debug, Default)]
pub(super) struct Names {
    counts: FxHashMap<BString, usize>,
    /// Paths that are objects already and are not counted yet, by file name. Finding out which file a
    /// path leads to opens it, so only those are counted that may lead to a file whose count matters.
    uncounted: FxHashMap<BString, Vec<BString>>,
}

impl Names {
    /// Counts paths that are objects already, once a path of the same file name is limited.
    pub(super) fn of_objects<'p>(paths: impl Iterator<Item = &'p BString>) -> Self {
        let mut uncounted: FxHashMap<BString, Vec<BString>> = FxHashMap::default();
        for path in paths {
            uncounted.entry(file_name(path)).or_default().push(path.clone());
        }
        Self { counts: FxHashMap::default(), uncounted }
    }

    /// Removes the paths beyond the limit, and counts the others.
    pub(super) fn limit(&mut self, fs: &dyn FileSystem, paths: &mut Vec<BString>) {
        paths.retain(|path| {
            let Some(real) = other_path(fs, path) else { return true };
            for name in [file_name(path), file_name(&real)] {
                for known in self.uncounted.remove(&name).into_iter().flatten() {
                    if let Some(real) = other_path(fs, &known) {
                        *self.counts.entry(real).or_default() += 1;
                    }
                }
            }
            let count = self.counts.entry(real).or_default();
            *count += 1;
            *count <= MOST_NAMES
        });
    }
}

fn file_name(path: &BString) -> BString {
    becalm_core::path::name(path).to_owned()
}

/// Returns the canonical path of a file if `path` is another one.
fn other_path(fs: &dyn FileSystem, path: &BString) -> Option<BString> {
    fs.canonicalize(path.as_ref()).ok().filter(|real| real != path)
}
