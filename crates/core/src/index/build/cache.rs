//! The loader cache, as the search of an index reads it.

use std::sync::Arc;

use bstr::BString;
use rustc_hash::FxHashSet;

use super::{Condition, Sources};
use crate::fs::Errno;
use crate::search::loader_cache::{CacheQuery, LoaderCache};

/// The loader cache and its condition.
pub(super) struct Cache {
    pub(super) cache: Option<LoaderCache>,
    pub(super) query: CacheQuery,
    pub(super) condition: Arc<Condition>,
    /// Names with an entry for particular CPUs.
    pub(super) of_cpus: FxHashSet<BString>,
}

impl Cache {
    pub(super) fn read(sources: &Sources<'_>) -> Option<Self> {
        let path = sources.facts.cache_path.as_ref()?;
        let query = CacheQuery::new(sources.ident, sources.facts);
        let (cache, condition) = match sources.fs.read(path.as_ref()) {
            Ok(bytes) => {
                let fingerprint = sources.fingerprints.fingerprint(path.as_ref()).ok()?;
                // Without times the module searches the cache for each answer.
                if fingerprint.volume != 0 && !fingerprint.is_settled(sources.fingerprints.now()) {
                    return None;
                }
                let cache = LoaderCache::parse_for(bytes, sources.ident)?;
                (Some(cache), Condition::File(path.clone(), fingerprint))
            }
            // `ldconfig` may write the cache later.
            Err(Errno::NOENT) => (None, Condition::Absent(path.clone())),
            Err(_) => return None,
        };
        let entries = cache.iter().flat_map(LoaderCache::entries);
        let of_cpus = entries
            .filter(|entry| entry.hwcap != 0 || entry.hwcaps_name.is_some())
            .map(|entry| entry.soname.to_owned())
            .collect();
        Some(Self { cache, query, condition: Arc::new(condition), of_cpus })
    }
}
