//! The programs of a store, and copies of the store that may be changed.
//!
//! Run paths are absolute, so a copy must be at the store's own path. Only work within its
//! [`Place`] sees it there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mount_namespace::{Bind, MountNamespace};
use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::child;

/// Finds the program of this name in a store, with links resolved. Returns `None` if no package has
/// it.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub(crate) fn find(store: &Path, name: &str) -> Result<Option<PathBuf>> {
    for package in entries(store)? {
        let program = package.join("bin").join(name);
        if program.is_file() {
            return Ok(Some(program.canonicalize()?));
        }
    }
    Ok(None)
}

/// Does the same as [`find`].
///
/// # Errors
/// Returns the errors of [`find`], and an error if no package has the program.
pub(crate) fn program(store: &Path, name: &str) -> Result<PathBuf> {
    find(store, name)?.with_context(|| format!("{}: no {name} in this store", store.display()))
}

/// Replaces the files of the store's C library with those that `folders` have from another build of
/// the same release.
///
/// # Errors
/// Returns an error if the folders have none of them, or a file cannot be copied.
pub(crate) fn set_libc(store: &Path, folders: &[PathBuf]) -> Result<()> {
    let mut filled = 0;
    for package in entries(store)? {
        let lib = package.join("lib");
        if !lib.join("libc.so.6").exists() {
            continue;
        }
        for file in entries(&lib)? {
            let name = file.file_name().context("a file without a name")?;
            let built = folders.iter().map(|folder| folder.join(name)).find(|it| it.is_file());
            let Some(built) = built else { continue };
            fs::remove_file(&file)?;
            fs::copy(&built, &file).with_context(|| built.display().to_string())?;
            filled += 1;
        }
    }
    // The loader and libc.so.6 must be of one build, so a single match is not enough.
    ensure!(filled > 1, "{folders:?}: no C library for {}", store.display());
    Ok(())
}

/// Returns the entries of a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// A mount namespace in which a store may be changed, or in which nothing differs.
pub(crate) struct Place {
    mount_namespace: MountNamespace,
    /// The directory of the copy, which is removed with the place.
    _copy: Option<TempDir>,
}

impl Place {
    /// Creates a place with a new copy of a store.
    ///
    /// # Errors
    /// Returns an error if the store does not exist or mounting is not allowed.
    pub(crate) fn of(store: &Path) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let copy: PathBuf = scratch.path().join("store");
        child::succeed(child::command("cp").args(["-a", "--reflink=auto"]).args([store, &copy]))?;
        let mount_namespace = MountNamespace::new(&[Bind { from: copy, to: store.to_owned() }])
            .with_context(|| format!("a copy in the place of {}", store.display()))?;
        Ok(Self { mount_namespace, _copy: Some(scratch) })
    }

    /// Creates a place in which nothing differs.
    ///
    /// # Errors
    /// Returns an error if mount namespaces are not allowed.
    pub(crate) fn plain() -> Result<Self> {
        Ok(Self { mount_namespace: MountNamespace::new(&[])?, _copy: None })
    }

    /// Runs `work` in the place; processes that it starts are in it too.
    ///
    /// # Errors
    /// Returns the errors of `work`, and an error if the place cannot be entered.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.mount_namespace.run(work)?
    }

    /// Moves the calling thread into the place, as [`MountNamespace::enter`] does.
    ///
    /// # Errors
    /// Returns the errors of [`MountNamespace::enter`].
    pub(crate) fn enter(&self) -> Result<()> {
        self.mount_namespace.enter()
    }
}
