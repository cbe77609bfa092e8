//! The results of searches in other starts of the same loader and environment.
//!
//! In a deep closure every program searches for the same libraries again. The result of a search along
//! an object's own `DT_RUNPATH`, `LD_LIBRARY_PATH`, the loader cache and the system directories is the
//! same in each process, unless an errno other than `ENOENT` has ended a search source: whether that
//! happens depends on the status of directories that earlier lookups have set.

use std::sync::{PoisonError, RwLock};

use bstr::BString;
use rustc_hash::FxHashMap;

use super::Process;
use super::open_path::Request;
use crate::loader::load::Found;

/// The files that were found: by the path of the requester, then by the needed string.
#[derive(Debug, Default)]
pub struct FoundBefore(RwLock<FxHashMap<BString, FxHashMap<BString, Found>>>);

impl Process<'_> {
    /// Returns the file that another start found for this lookup.
    pub(super) fn found_before(&self, request: Request<'_>) -> Option<Found> {
        let known = self.found_before.filter(|_| self.is_the_same_everywhere(request))?;
        let known = known.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&self.load.objects[request.needed_by].path)?.get(request.name).cloned()
    }

    /// Keeps the result of a lookup for other starts.
    pub(super) fn keep(&self, request: Request<'_>, found: &Found) {
        let is_kept = !self.met_an_error && self.is_the_same_everywhere(request);
        if let Some(known) = self.found_before.filter(|_| is_kept) {
            let mut known = known.0.write().unwrap_or_else(PoisonError::into_inner);
            let path = self.load.objects[request.needed_by].path.clone();
            known.entry(path).or_default().insert(request.name.to_owned(), found.clone());
        }
    }

    fn is_the_same_everywhere(&self, request: Request<'_>) -> bool {
        let reads = &self.environment.reads;
        request.namespace == 0
            && !self.environment.secure
            && !reads.note
            && reads.package_caches.is_empty()
            // The DSTs of this path have the values of the program.
            && !self.environment.library_path.as_ref().is_some_and(|path| path.contains(&b'$'))
            && (!self.has_rpath || self.requester(request.needed_by).has_runpath)
    }
}
