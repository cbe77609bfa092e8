//! Lists the directories of every `DT_RPATH`, in which objects further down are also searched.

use std::collections::BTreeMap;
use std::sync::Arc;

use becalm_core::index::Object;
use becalm_core::index::build::Listed;
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;

use super::{Work, names_in};

/// Key: the path without a slash at its end.
pub(super) type ListedDirs = BTreeMap<BString, Listed>;

impl Work<'_> {
    /// Lists the directories that objects with a `DT_RPATH` search and that are not listed yet.
    /// Returns the paths of the libraries found in them.
    pub(super) fn list(&self, objects: &[Object], listed: &mut ListedDirs) -> Vec<BString> {
        let dirs: FxHashSet<&Arc<BString>> =
            objects.iter().flat_map(|object| &object.rpath).flatten().collect();
        let new: Vec<&Arc<BString>> =
            dirs.into_iter().filter(|dir| !listed.contains_key(&***dir)).collect();
        let names = |dir: &BStr| names_in(&dir.to_owned());
        let found = self.for_each(&new, |_, resolver, dir| {
            Some((BString::clone(dir), resolver.listed(dir.as_ref().as_ref(), &names)?))
        });
        let found = ListedDirs::from_iter(found);
        let paths = certain_paths(&found).collect();
        listed.extend(found);
        paths
    }
}

/// Returns the paths of the names whose answer is certain.
pub(super) fn certain_paths(listed: &ListedDirs) -> impl Iterator<Item = BString> {
    listed.iter().flat_map(|(dir, listed)| {
        let certain = listed.names.iter().filter(|(_, is_certain)| *is_certain);
        certain.map(|(name, _)| BString::from([dir.as_slice(), b"/", name].concat()))
    })
}
