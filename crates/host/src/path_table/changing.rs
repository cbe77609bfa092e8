//! Directories that change in place: each is a separate package, with the names in it.

use std::os::fd::OwnedFd;

use becalm_core::index::Fingerprint;
use becalm_core::index::paths::{Kind, Package, PackageBuilder, package_state, step};
use bstr::BString;
use rustix::fs::{CWD, FileType};
use rustix::io::Errno;

use super::reading::{check_case, facts, kind_of, names_in, open_dir};
use super::{
    LONGEST_RELATIVE, LeftOut, PathTable, SEARCH_FOR_ALL, Store, Walk, is_odd_name, path_in,
};

/// Makes a package for each directory of a root. A directory that cannot be one is left out, and
/// the kernel answers lookups in it.
pub(super) fn packages(
    walk: &Walk<'_>,
    store: &Store,
    root: u32,
    table: &mut PathTable,
) -> Vec<Package> {
    let mut tree = Tree { walk, store, root, table };
    let mut packages = Vec::new();
    let dir = open_dir(CWD, &store.path).map_err(|_| LeftOut::Unreadable);
    let read = dir.and_then(|dir| tree.directory(dir, &BString::default(), &mut packages));
    if let Err(why) = read {
        packages.extend(table.leave_out(store, root, &BString::default(), why));
    }
    packages
}

struct Tree<'a> {
    walk: &'a Walk<'a>,
    store: &'a Store,
    root: u32,
    table: &'a mut PathTable,
}

impl Tree<'_> {
    /// Adds a directory, by its path below the root, after those below it.
    fn directory(
        &mut self,
        dir: OwnedFd,
        name: &BString,
        packages: &mut Vec<Package>,
    ) -> Result<(), LeftOut> {
        let unreadable = |_: Errno| LeftOut::Unreadable;
        let before = facts(&dir).map_err(unreadable)?;
        let stamp = self.store.fingerprint(&before);
        if before.stx_mode & SEARCH_FOR_ALL != SEARCH_FOR_ALL || name.len() > LONGEST_RELATIVE {
            return Err(LeftOut::Unreadable);
        }
        if !self.walk.is_of(self.store, &before) {
            return Err(LeftOut::Mounted);
        }
        if !stamp.is_settled(self.walk.now) {
            return Err(LeftOut::Changing);
        }
        let names = names_in(&dir).map_err(unreadable)?;
        check_case(&dir, &names)?;
        let after = facts(&dir).map_err(unreadable)?;
        if self.store.fingerprint(&after) != stamp {
            return Err(LeftOut::Changing);
        }
        let state = package_state(self.store.path.as_ref(), name);
        let mut builder = PackageBuilder::default();
        for (entry, kind) in &names {
            let kind = match kind {
                // Not every file system reports the type with the name (readdir(3)).
                FileType::Unknown => kind_of(&dir, entry)?,
                kind => *kind,
            };
            let inner = match kind {
                FileType::Directory if !is_odd_name(entry) => {
                    let below = if name.is_empty() { entry.clone() } else { path_in(name, entry) };
                    self.inner(&dir, entry, &below, packages)
                }
                _ => Kind::Other,
            };
            builder.add(step(state, entry), inner);
        }
        self.table.read += 1;
        packages.push(Package {
            root: self.root,
            name: name.clone(),
            state,
            fingerprint: Fingerprint { volume: 0, ..stamp },
            young: false,
            table: builder.finish(),
        });
        Ok(())
    }

    fn inner(
        &mut self,
        dir: &OwnedFd,
        entry: &BString,
        below: &BString,
        packages: &mut Vec<Package>,
    ) -> Kind {
        let opened = open_dir(dir, entry).map_err(|_| LeftOut::Unreadable);
        match opened.and_then(|dir| self.directory(dir, below, packages)) {
            Ok(()) => Kind::Directory,
            Err(why) => {
                packages.extend(self.table.leave_out(self.store, self.root, below, why));
                Kind::Other
            }
        }
    }
}
