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
pub(super) struct Names(FxHashMap<BString, usize>);

impl Names {
    /// Counts paths that are objects already.
    pub(super) fn count<'p>(
        &mut self,
        fs: &dyn FileSystem,
        paths: impl Iterator<Item = &'p BString>,
    ) {
        for path in paths {
            self.count_one(fs, path);
        }
    }

    /// Removes the paths beyond the limit, and counts the others.
    pub(super) fn limit(&mut self, fs: &dyn FileSystem, paths: &mut Vec<BString>) {
        paths.retain(|path| self.count_one(fs, path) <= MOST_NAMES);
    }

    /// Returns the number of the file's non-canonical paths with this one; 0 for a canonical path.
    fn count_one(&mut self, fs: &dyn FileSystem, path: &BString) -> usize {
        match fs.canonicalize(path.as_ref()) {
            Ok(real) if real != *path => {
                let count = self.0.entry(real).or_default();
                *count += 1;
                *count
            }
            _ => 0,
        }
    }
}
