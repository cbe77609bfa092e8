//! Lists the directories of every `DT_RPATH`, in which objects further down are also searched.

use std::collections::BTreeMap;
use std::sync::Arc;

use becalm_core::facts::LoaderFacts;
use becalm_core::index::Condition;
use becalm_core::index::build::{Listed, ResolvedObject};
use becalm_core::search::store::below;
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;

use super::{Work, names_in};

/// Key: the path without a slash at its end.
pub(super) type ListedDirs = BTreeMap<BString, Listed>;

impl Work<'_> {
    /// Lists the directories that objects with a `DT_RPATH` search and that are not listed yet.
    /// Returns the paths of the libraries found in them.
    pub(super) fn list(
        &self,
        facts: &LoaderFacts,
        resolved: &[ResolvedObject],
        listed: &mut ListedDirs,
    ) -> Vec<BString> {
        let with_rpath = resolved.iter().filter(|resolved| resolved.has_rpath);
        let dirs: FxHashSet<&Arc<BString>> =
            with_rpath.flat_map(|resolved| &resolved.searched).collect();
        let new: Vec<&Arc<BString>> =
            dirs.into_iter().filter(|dir| !listed.contains_key(&***dir)).collect();
        let names = |dir: &BStr| names_in(&dir.to_owned());
        let found = self.for_each(facts, &new, |_, resolver, dir| {
            Some((BString::clone(dir), resolver.listed(dir.as_ref().as_ref(), &names)?))
        });
        let found = ListedDirs::from_iter(found);
        let paths = certain_paths(&found).collect();
        listed.extend(found);
        paths
    }

    /// Turns an absent package into a plain absent path if no store root shows that packages came
    /// or went. The module then checks that path each time.
    pub(super) fn look_each_time(&self, flat: &[&BStr], conditions: &mut [Condition]) {
        for condition in conditions {
            if let Condition::AbsentPackage(path) = condition
                && !flat.iter().any(|store| below(path, store).is_some())
            {
                *condition = Condition::Absent(std::mem::take(path));
            }
        }
    }
}

/// Returns the paths of the names whose answer is certain.
pub(super) fn certain_paths(listed: &ListedDirs) -> impl Iterator<Item = BString> {
    listed.iter().flat_map(|(dir, listed)| {
        let certain = listed.names.iter().filter(|(_, is_certain)| *is_certain);
        certain.map(|(name, _)| BString::from([dir.as_slice(), b"/", name].concat()))
    })
}
