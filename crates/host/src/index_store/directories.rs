//! Records the directories of an index: the stores' own, those of `LD_LIBRARY_PATH`, and those by
//! which [`super::update`] detects changes.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use becalm_core::fs::Errno;
use becalm_core::index::build::{Fingerprints, is_in_package, name_in};
use becalm_core::index::{Condition, Directory, Fingerprint, Folder, Index, Object};
use becalm_core::path::without_end_slashes;
use becalm_core::search::store::below;
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;

use super::{Work, is_changed_in_place, names_in, path_bytes, real};

impl<'a> Work<'a> {
    /// Adds them to the index. Returns the stores whose own directory changes whenever a package is
    /// added or removed.
    pub(super) fn directories(&self, index: &mut Index, objects: &[Object]) -> Vec<&'a BStr> {
        let flat = self.roots(index, objects);
        let mut seen: FxHashSet<BString> = FxHashSet::default();
        for dir in self.options.dirs {
            let path = without_end_slashes(dir.as_os_str().as_bytes()).to_owned();
            if !seen.insert(path.clone()) {
                continue;
            }
            index.directories.extend(self.snapshot(path));
        }
        let watched = self.to_watch(&flat, objects).into_iter().map(|folder| (folder, true));
        let searched = objects.iter().flat_map(|object| &object.searched);
        let mut seen: FxHashSet<&BString> = FxHashSet::default();
        for (path, walked) in watched.chain(searched.map(|dir| (&**dir, false))) {
            if seen.insert(path) {
                let digest = self.digest(path);
                index.folders.push(Folder { path: path.clone(), digest, walked });
            }
        }
        flat
    }

    /// Returns the digest of a folder's current state.
    fn digest(&self, folder: &BString) -> u32 {
        match self.fingerprints.fingerprint(folder.as_ref()) {
            Ok(fingerprint) if fingerprint.is_settled(self.fingerprints.now()) => {
                Fingerprint { size: 0, ..fingerprint }.digest()
            }
            Err(Errno::NOENT) => Folder::ABSENT,
            // The folder is listed, and the objects that search it are resolved, at each update.
            _ => Folder::UNKNOWN,
        }
    }

    /// Adds the stores' own directories. A fingerprint that a later state may share is not
    /// recorded, and so never matches. The same applies to a store whose packages are added and
    /// removed deeper down.
    fn roots(&self, index: &mut Index, objects: &[Object]) -> Vec<&'a BStr> {
        let mut add = |path, known| {
            index.roots.push(Arc::new(Condition::Directory(path, known)));
        };
        let named = objects.iter().filter(|object| !object.path.is_empty());
        let answers = named.flat_map(|object| &object.edges).map(|edge| &edge.path);
        let canonical = objects.iter().filter(|object| object.canonical);
        let own = canonical.map(|object| &object.path).chain(&self.group.paths);
        let paths: Vec<&BString> = own.chain(answers).collect();
        let mut flat: Vec<&BStr> = Vec::new();
        for store in self.stores.iter() {
            let mut inside = paths.iter().filter_map(|path| below(path, store)).peekable();
            let is_used = inside.peek().is_some();
            let is_named =
                self.options.stores.iter().any(|named| path_bytes(&real(named)) == store);
            if !is_used && !is_named {
                continue;
            }
            let is_flat = is_used && inside.all(is_in_package);
            // Without a listing: the names of packages do not prove their content on another volume.
            let fingerprint = self.settled(store).filter(|_| is_flat);
            if is_flat {
                flat.push(store);
            }
            add(store.to_owned(), fingerprint.unwrap_or_default());
        }
        // No directory shows what changed in these trees, so `--update` walks them again.
        let stores = self.options.stores.iter().filter(|tree| is_changed_in_place(tree));
        for tree in stores.chain(self.options.trees) {
            add(path_bytes(&real(tree)), Fingerprint::default());
        }
        flat
    }

    /// Returns the folders that an update must check. In a flat store these are each package and
    /// the folders that have objects in them or further down. In other stores these are all
    /// folders.
    fn to_watch<'s>(&'s self, flat: &'s [&BStr], objects: &[Object]) -> Vec<&'s BString> {
        let mut holders: FxHashSet<&[u8]> = FxHashSet::default();
        for Object { path, .. } in objects.iter().filter(|object| object.canonical) {
            let mut above = path.rfind_byte(b'/').map(|slash| &path[..slash]);
            while let Some(dir) = above.filter(|dir| holders.insert(dir)) {
                above = dir.rfind_byte(b'/').map(|slash| &dir[..slash]);
            }
        }
        let is_package = |folder: &BString, store: &BStr| {
            let slashed = [folder.as_slice(), b"/"].concat();
            let entry = below(&slashed, store);
            entry.is_some_and(|entry| {
                is_in_package(entry) && entry.find_byte(b'/') == Some(entry.len() - 1)
            })
        };
        let is_watched = |folder: &&BString| {
            let mut in_flat = flat.iter().filter(|store| below(folder, store).is_some()).peekable();
            in_flat.peek().is_none()
                || holders.contains(folder.as_slice())
                || in_flat.any(|store| is_package(folder, store))
        };
        self.folders.iter().filter(is_watched).collect()
    }

    pub(super) fn is_in_store(&self, path: &[u8]) -> bool {
        self.stores.contain(path) || self.stores.iter().any(|store| path == store)
    }

    pub(super) fn settled(&self, path: &BStr) -> Option<Fingerprint> {
        self.fingerprints
            .fingerprint(path)
            .ok()
            .filter(|fingerprint| fingerprint.is_settled(self.fingerprints.now()))
    }

    /// Returns a directory with its names, and its condition, which was equal before and after the
    /// read. Returns `None` if the directory has hwcaps subdirectories or changes meanwhile.
    fn snapshot(&self, path: BString) -> Option<Directory> {
        if self.fingerprints.fingerprint(path.as_ref()) == Err(Errno::NOENT) {
            let condition = Arc::new(Condition::Absent(path.clone()));
            return Some(Directory { path, condition, names: Some(Vec::new()) });
        }
        let before = self.fingerprints.directory(path.as_ref())?;
        let session = self.os.session();
        let mut names = Vec::new();
        let ident = &self.group.ident;
        for name in names_in(&path)? {
            names.push(name_in(&session, path.as_ref(), name.as_ref(), ident)?);
        }
        names.sort_unstable();
        let after = self.fingerprints.directory(path.as_ref());
        let condition = Arc::new(Condition::Directory(path.clone(), before));
        (after == Some(before)).then_some(Directory { path, condition, names: Some(names) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_by_a_hash() {
        let named = b"0123456789abcdfghijklmnpqrsvwxyz-bash-5/bin/bash";
        assert!(is_in_package(named));
        let others: [&[u8]; 4] = [
            b"gcc/12.1/lib/libstdc++.so.6",
            b"0123456789abcdfghijklmnpqrsvwxyz-bash",
            b"0123456789abcdfghijklmnpqrsvwxy-bash/bin/bash",
            b"linux-debian12-x86_64_v3-gcc/a-1/lib/liba.so",
        ];
        assert!(others.iter().all(|path| !is_in_package(path)));
    }
}
