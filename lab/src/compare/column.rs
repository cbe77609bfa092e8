//! A column of the table: a strategy applied to a copy of the program's packages. The copy is
//! mounted over the originals in a mount namespace of the column.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::mount_namespace::{Bind, MountNamespace, mount_all};

use crate::compare::apply::{Done, GRAIN, Site, apply, revert};
use crate::compare::kind::Kind;
use crate::compare::placed::Program;
use crate::compare::tree::{Entries, What, copy_tree, entries, link_tree};
use becalm_lib::compare::import::check_room;
use becalm_lib::compare::program::found;

/// A strategy on a copy of the program's packages.
#[derive(Debug)]
pub(super) struct Column {
    /// The subject of the column.
    pub kind: Kind,
    /// The program's file; for a static build, the file of that build.
    pub program: PathBuf,
    /// Mount namespace that the program runs in.
    pub mount_namespace: MountNamespace,
    /// The applied strategy.
    pub done: Done,
    /// Time taken to apply the strategy.
    pub applied: Duration,
    /// Changes to the store.
    pub changes: Changes,
    tree: PathBuf,
    index: PathBuf,
}

/// Changes made to a store by a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Growth of the store in bytes; negative if the files became smaller.
    pub bytes: i64,
    /// Number of changed files and links.
    pub changed: usize,
    /// Number of new files and links.
    pub made: usize,
}

/// The untouched copies of the packages, from which each column's copy is made.
pub(super) struct Stock {
    /// Directory of the copies.
    pub tree: PathBuf,
    entries: Entries,
    /// Bytes of all copies.
    pub bytes: u64,
    /// Directory with the state that undo restores: the copies without earlier edits by becalm.
    original: PathBuf,
}

impl Stock {
    /// Copies the packages of a program below a directory, one after the other.
    ///
    /// # Errors
    /// Returns an error if there is not enough disk space, or if a file cannot be read.
    pub(super) fn copy(program: &Program, below: &Path) -> Result<Self> {
        let mut bytes = 0;
        for package in &program.packages {
            bytes += entries(package)?.values().map(|(_, bytes)| bytes).sum::<u64>();
        }
        check_room(below, bytes)?;
        let tree = below.join("stock");
        for (at, package) in program.packages.iter().enumerate() {
            copy_tree(package, &tree.join(at.to_string()))?;
        }
        let original = below.join("original");
        // Linked: a revert replaces files and does not write into them, so the stock stays as it
        // is.
        link_tree(&tree, &original)?;
        // A file that cannot be reverted is the same in both trees, so the result is ignored.
        let _ = revert(std::slice::from_ref(&original))?;
        let entries = entries(&tree)?;
        Ok(Self { tree, entries, bytes, original })
    }
}

impl Column {
    /// Applies a strategy to copies of the program's packages.
    ///
    /// # Errors
    /// Returns an error if the packages cannot be copied or mounted, or if the strategy cannot be
    /// applied.
    pub(super) fn make(kind: Kind, program: &Program, stock: &Stock, below: &Path) -> Result<Self> {
        let tree = below.join(kind.name());
        // Linked: a strategy replaces files and does not write into them.
        link_tree(&stock.tree, &tree)?;
        let packages = program.packages.iter().enumerate();
        let binds: Vec<Bind> =
            packages.map(|(at, package)| (tree.join(at.to_string()), package.clone())).collect();
        let mount_namespace = MountNamespace::new(&binds)?;
        let index = below.join(format!("{}-index.so", kind.name()));
        let inside: Vec<PathBuf> = program
            .objects
            .iter()
            .filter(|object| program.packages.iter().any(|package| object.starts_with(package)))
            .cloned()
            .collect();
        let site = Site {
            programs: std::slice::from_ref(&program.start.path),
            objects: &inside,
            prefixes: &program.prefixes,
            stores: &program.stores,
            index: index.clone(),
        };
        // A new link changes the ctime of its file, and an index has no bindings of files that have
        // just changed.
        if kind.has_bindings() {
            std::thread::sleep(GRAIN);
        }
        let began = Instant::now();
        let done = mount_namespace.run(|| apply(kind, &site))??;
        let applied = began.elapsed();
        let mut changes = changes(&stock.entries, &entries(&tree)?);
        if let Ok(about) = index.metadata() {
            changes.bytes += i64::try_from(about.len()).unwrap_or(i64::MAX);
            changes.made += 1;
        }
        // The started programs must not change the packages.
        mount_namespace.set_read_only(&program.packages, true)?;
        Ok(Self {
            kind,
            program: program.start.path.clone(),
            mount_namespace,
            done,
            applied,
            changes,
            tree,
            index,
        })
    }

    /// Makes the column of a static build, in a mount namespace without further mounts.
    ///
    /// # Errors
    /// Returns an error if the file is not found, or if the mount namespace cannot be made.
    pub(super) fn of_static(file: &Path) -> Result<Self> {
        let program = found(file)?;
        let about = program.metadata().with_context(|| program.display().to_string())?;
        let bytes = i64::try_from(about.len()).unwrap_or(i64::MAX);
        Ok(Self {
            kind: Kind::Static,
            program,
            mount_namespace: MountNamespace::new(&[])?,
            done: Done::default(),
            applied: Duration::ZERO,
            changes: Changes { bytes, changed: 0, made: 1 },
            tree: PathBuf::new(),
            index: PathBuf::new(),
        })
    }

    /// Returns the paths of the audit modules that becalm makes the program load.
    pub(super) fn own_modules(&self) -> Vec<PathBuf> {
        let mut own = vec![becalm_lib::fix::audit::index_beside(&self.program)];
        own.extend(self.index.canonicalize());
        own
    }

    /// Mounts another loader, and the C library beside that loader, over the program's own.
    ///
    /// # Errors
    /// Returns an error if there is no C library beside the loader, or if the program's C library
    /// is not found.
    pub(super) fn set_loader(&self, program: &Program, loader: &Path) -> Result<()> {
        let name = Path::new("libc.so.6");
        let libc = loader.with_file_name(name);
        let libc = libc.canonicalize().with_context(|| libc.display().to_string())?;
        // Before glibc 2.34 `libc.so.6` is a link to `libc-2.VERSION.so`, and these paths have no
        // links.
        let own = program.objects.iter().find(|object| {
            object
                .file_name()
                .is_some_and(|file| file == name || file.as_encoded_bytes().starts_with(b"libc-2."))
        });
        let own = own.context("the program loads no libc.so.6")?;
        let binds = [(loader.to_owned(), program.start.interpreter.clone()), (libc, own.clone())];
        self.mount_namespace.run(|| mount_all(&binds))?
    }

    /// Reverts the strategy. Returns a file that differs from its state before the strategy, or
    /// `None`.
    ///
    /// # Errors
    /// Returns an error if the mount namespace cannot be entered, or if a file cannot be read.
    pub(super) fn undo(&self, program: &Program, stock: &Stock) -> Result<Option<String>> {
        self.mount_namespace.set_read_only(&program.packages, false)?;
        let not_undone = self.mount_namespace.run(|| revert(&program.packages))??;
        if not_undone.is_some() {
            return Ok(not_undone);
        }
        difference(&stock.original, &self.tree)
    }
}

/// Returns the first difference between two trees, or `None` if they are equal.
fn difference(original: &Path, tree: &Path) -> Result<Option<String>> {
    let (before, now) = (entries(original)?, entries(tree)?);
    if let Some(more) = now.keys().find(|path| !before.contains_key(*path)) {
        return Ok(Some(format!("{} is left", more.display())));
    }
    for (path, (old, _)) in &before {
        let read = |root: &Path| {
            let path = root.join(path);
            std::fs::read(&path).with_context(|| path.display().to_string())
        };
        let same = match now.get(path) {
            None => return Ok(Some(format!("{} is gone", path.display()))),
            // Both trees link to the same inodes, so only replaced files have to be read.
            Some((new, _)) if new == old => true,
            Some((What::File(_), _)) if matches!(old, What::File(_)) => {
                read(original)? == read(tree)?
            }
            Some(_) => false,
        };
        if !same {
            return Ok(Some(format!("{} differs", path.display())));
        }
    }
    Ok(None)
}

/// Returns the differences between two states of a tree.
fn changes(before: &Entries, after: &Entries) -> Changes {
    let sum = |entries: &Entries| entries.values().map(|(_, bytes)| *bytes as i64).sum::<i64>();
    let mut changes = Changes { bytes: sum(after) - sum(before), ..Changes::default() };
    for (path, (now, _)) in after.iter().filter(|(_, (what, _))| *what != What::Directory) {
        match before.get(path) {
            Some((old, _)) => changes.changed += usize::from(old != now),
            None => changes.made += 1,
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_directory_is_compared_by_where_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        std::fs::create_dir_all(one.join("sub")).unwrap();
        std::fs::write(one.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("sub", one.join("link")).unwrap();
        link_tree(&one, &two).unwrap();
        let changed = || changes(&entries(&one).unwrap(), &entries(&two).unwrap());
        assert_eq!(changed(), Changes::default());
        let differs = || difference(&one, &two).unwrap();
        assert_eq!(differs(), None);

        std::fs::remove_file(two.join("file")).unwrap();
        std::fs::write(two.join("file"), "yz").unwrap();
        std::fs::write(two.join("more"), "1").unwrap();
        assert_eq!(changed(), Changes { bytes: 2, changed: 1, made: 1 });
        assert_eq!(differs().as_deref(), Some("more is left"));
        std::fs::remove_file(two.join("more")).unwrap();
        assert_eq!(differs().as_deref(), Some("file differs"));
        assert_eq!(std::fs::read(one.join("file")).unwrap(), b"x");
    }
}
