//! Lists directories, and decides if a name that is not listed is absent.
//!
//! Some file systems find names that they do not list (automounts, /proc), or list them in another
//! spelling (case-insensitive directories). In such directories each name is looked up with a
//! system call.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use becalm_core::index::volume::lists_all;
use rustc_hash::FxHashSet;
use rustix::fs::{OFlags, RawDir};

use super::root::Root;
use crate::facts::Facts;
use crate::fingerprint::{self, Fingerprint};
use crate::path::is_case_sensitive;

/// Number of misses in a directory after which it is listed. Fewer failed lookups cost less than
/// reading all names of a /usr/lib.
const LIST_AFTER: u32 = 4;

/// Maximum number of names in a cached listing.
const MAX_NAMES: usize = 65_536;

/// Bytes that one `getdents` call reads, the same number as in the C library.
const BUFFER: usize = 32 * 1024;

/// A directory in one state, which all sessions share.
#[derive(Debug, Default)]
pub(super) struct KnownDir {
    misses: AtomicU32,
    pub(super) listing: OnceLock<Arc<Listing>>,
}

/// The names of a directory; `None` if a name that is not listed may still exist.
#[derive(Debug)]
pub(super) struct Listing(Option<FxHashSet<Box<[u8]>>>);

impl Listing {
    /// Returns true if a lookup of `name` fails with `ENOENT`.
    pub(super) fn lacks(&self, name: &[u8]) -> bool {
        // Longer names fail with another error. Names that are not ASCII may be listed in another
        // normal form.
        self.0
            .as_ref()
            .is_some_and(|names| name.len() <= 255 && name.is_ascii() && !names.contains(name))
    }
}

impl KnownDir {
    /// Counts a miss. Returns true if the directory should be listed now.
    pub(super) fn missed(&self) -> bool {
        self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= LIST_AFTER
    }

    /// Reads the names of the directory at `path`, whose state was `fingerprint`. Returns `None` if it has changed since.
    pub(super) fn list(
        &self,
        root: &Root,
        path: &[u8],
        fingerprint: &Fingerprint,
    ) -> Option<Arc<Listing>> {
        // Read before the names, so that a change during the listing counts as recent.
        let started = fingerprint::now();
        let names = match root.open(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            // The directory may be searchable without being readable.
            Err(_) => None,
            Ok(dir) => {
                let is_same = || Facts::of(&dir).is_ok_and(|now| now.fingerprint == *fingerprint);
                if !is_same() {
                    return None;
                }
                // Equal states before and after the read mean that no name came or went meanwhile.
                let names = names_of(&dir);
                if !is_same() {
                    return None;
                }
                names
            }
        };
        let listing = Arc::new(Listing(names));
        if fingerprint.may_change_unseen(started) {
            // The next session must list it again, but not at its first miss.
            self.misses.store(0, Ordering::Relaxed);
            return Some(listing);
        }
        Some(Arc::clone(self.listing.get_or_init(|| listing)))
    }
}

/// Returns all names of a directory, or `None` if a name that is not listed may still exist.
fn names_of(dir: &OwnedFd) -> Option<FxHashSet<Box<[u8]>>> {
    let kind = rustix::fs::fstatfs(dir).ok()?.f_type;
    // The sign and the width of f_type differ between architectures.
    #[allow(clippy::unnecessary_cast, reason = "a no-op on some architectures")]
    if !lists_all(kind as u32) {
        return None;
    }
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(dir, &mut buffer);
    let mut names = FxHashSet::default();
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(Box::from(name));
        }
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    let listed = names.iter().map(|name| &**name);
    // If every name also exists in the other case, nothing can be concluded.
    let is_sensitive =
        is_case_sensitive(dir, listed, |name| names.contains(name)).unwrap_or(names.is_empty());
    is_sensitive.then_some(names)
}
