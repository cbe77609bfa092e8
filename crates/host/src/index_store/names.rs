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
    /// Counts a path. Returns false beyond the limit.
    pub(super) fn count(&mut self, fs: &dyn FileSystem, path: &BString) -> bool {
        let real = fs.canonicalize(path.as_ref()).ok().filter(|real| real != path);
        let Some(real) = real else { return true };
        let count = self.0.entry(real).or_default();
        *count += 1;
        *count <= MOST_NAMES
    }
}
