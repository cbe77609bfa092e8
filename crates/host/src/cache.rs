//! A map of limited size that threads share.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

/// Values that are cheap to clone, such as an [`std::sync::Arc`].
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    kept: Mutex<Kept<K, V>>,
    /// Maximum sum of the sizes. A full cache is emptied.
    most: usize,
}

/// The values, and the sum of their sizes.
type Kept<K, V> = (FxHashMap<K, V>, usize);

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.kept().0.get(key).cloned()
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&self, key: K, value: V, size: usize) {
        let mut kept = self.kept();
        let full = (kept.1 >= self.most).then(|| std::mem::take(&mut *kept));
        // Two threads may have found the value.
        if kept.0.insert(key, value).is_none() {
            kept.1 += size;
        }
        drop(kept);
        // After the lock: it may be large.
        drop(full);
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K, V>> {
        // No value is ever partly written, so the lock is used even if its holder panicked.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_keys_do_not_grow_a_limited_cache() {
        let cache = Cache::new(1600);
        for key in 0..1_000_000_u64 {
            cache.insert(key, key, 1);
        }
        let kept = cache.kept().0.len();
        assert!(kept <= 1600, "{kept}");
        assert_eq!(cache.get(&999_999), Some(999_999));
    }
}
