//! A store of packages as it is measured: its programs, and copies of it that may be changed.
//!
//! Run paths are absolute, so a copy must lie under the store's own name; only what is done in
//! its [`Place`] sees it there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use becalm_host::mount_namespace::{Bind, MountNamespace};
use tempfile::TempDir;

use crate::child;

/// The program of this name in a store, links resolved; `None` where no package has one.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn find(store: &Path, name: &str) -> Result<Option<PathBuf>> {
    for package in entries(store)? {
        let program = package.join("bin").join(name);
        if program.is_file() {
            return Ok(Some(program.canonicalize()?));
        }
    }
    Ok(None)
}

/// As [`find`].
///
/// # Errors
/// As [`find`]; and no package has one.
pub(crate) fn program(store: &Path, name: &str) -> Result<PathBuf> {
    find(store, name)?.with_context(|| format!("{}: no {name} in this store", store.display()))
}

/// Gives the store's C library the files that folders have of another build of its release.
///
/// # Errors
/// The folders have none of them; a file cannot be copied.
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
    // The loader and the library beside it know each other's insides.
    ensure!(filled > 1, "{folders:?}: no C library for {}", store.display());
    Ok(())
}

/// What lies in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Where a store may be changed, or is as it is.
pub(crate) struct Place {
    mount_namespace: MountNamespace,
    /// Where the copy lies.
    _copy: Option<TempDir>,
}

impl Place {
    /// With a fresh copy of a store, made in a folder or in that for temporary files.
    ///
    /// # Errors
    /// No such store, or no right to mount.
    pub(crate) fn of(store: &Path, folder: Option<&Path>) -> Result<Self> {
        let scratch = match folder {
            Some(folder) => tempfile::tempdir_in(folder)?,
            None => tempfile::tempdir()?,
        };
        let copy: PathBuf = scratch.path().join("store");
        let mut command = child::command("cp");
        command.args(["-a", "--reflink=auto"]).args([store, &copy]);
        child::succeed(command)?;
        let mount_namespace = MountNamespace::new(&[Bind { from: copy, to: store.to_owned() }])
            .with_context(|| format!("a copy in the place of {}", store.display()))?;
        Ok(Self { mount_namespace, _copy: Some(scratch) })
    }

    /// With everything as it is.
    ///
    /// # Errors
    /// No right to have a place of one's own.
    pub(crate) fn plain() -> Result<Self> {
        Ok(Self { mount_namespace: MountNamespace::new(&[])?, _copy: None })
    }

    /// Does something in it, as do the programs that this starts.
    ///
    /// # Errors
    /// Those of the work, or there is no way in.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.mount_namespace.run(work)?
    }
}
