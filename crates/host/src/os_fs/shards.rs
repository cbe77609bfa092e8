//! A hash map for concurrent readers: sixteen maps, each with its own lock, selected by the key's
//! hash.

use std::hash::{BuildHasher, Hash};
use std::sync::{PoisonError, RwLock};

use rustc_hash::{FxBuildHasher, FxHashMap};

const SHARDS: usize = 16;

/// A concurrent map of values that are cheap to clone. No value is ever partly written, so a lock
/// is used even if its holder panicked.
#[derive(Debug)]
pub(super) struct Shards<K, V> {
    maps: [RwLock<FxHashMap<K, V>>; SHARDS],
    /// Limit on the entries of one map. A full map is emptied.
    most: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self { maps: std::array::from_fn(|_| RwLock::default()), most: usize::MAX }
    }
}

impl<K: Hash + Eq, V: Clone> Shards<K, V> {
    /// Returns the value of a key.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.shard(key).read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Sets the value of a key.
    pub(super) fn insert(&self, key: K, value: V) {
        let mut map = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        self.make_room(&mut map);
        map.insert(key, value);
    }

    /// Returns the value of a key, creating it if it is missing.
    pub(super) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let mut map = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        self.make_room(&mut map);
        // Another thread may have inserted the key between the two locks.
        map.entry(key).or_insert_with(make).clone()
    }

    fn shard(&self, key: &K) -> &RwLock<FxHashMap<K, V>> {
        // The maps use the top and the bottom bits of the same hash.
        let hash = FxBuildHasher.hash_one(key);
        &self.maps[(hash >> 32) as usize % SHARDS]
    }

    /// Limits the number of entries.
    pub(super) fn limit(&mut self, entries: usize) {
        self.most = entries.div_ceil(SHARDS).max(1);
    }

    fn make_room(&self, map: &mut FxHashMap<K, V>) {
        if map.len() >= self.most {
            map.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_keys_do_not_grow_limited_maps() {
        let mut shards = Shards::default();
        shards.limit(1600);
        for key in 0..1_000_000_u64 {
            shards.insert(key, key);
        }
        let kept: usize = shards.maps.iter().map(|map| map.read().expect("no panic").len()).sum();
        assert!(kept <= 1600, "{kept}");
        assert_eq!(shards.get(&999_999), Some(999_999));
    }
}
