//! A copy in the store's place: run paths are absolute, so what is changed must lie under the
//! store's own name, and only this process and its children see it there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use crate::child;
use crate::slowfs;

/// A store whose files may be changed.
pub(super) struct Place {
    store: PathBuf,
    scratch: TempDir,
    mounted: bool,
}

impl Place {
    /// To be made before any thread is started.
    ///
    /// # Errors
    /// No such store, or no right to mount.
    pub(super) fn new(store: &Path) -> Result<Self> {
        let store = store.canonicalize().with_context(|| store.display().to_string())?;
        slowfs::stand_apart()?;
        let scratch = tempfile::tempdir()?;
        Ok(Self { store, scratch, mounted: false })
    }

    /// The store, by its own name.
    pub(super) fn store(&self) -> &Path {
        &self.store
    }

    /// Puts a fresh copy in the store's place, in place of the last one.
    ///
    /// # Errors
    /// It cannot be copied or mounted.
    pub(super) fn renew(&mut self) -> Result<()> {
        self.take_away()?;
        let copy = self.scratch.path().join("store");
        let mut command = child::command("cp");
        command.args(["-a", "--reflink=auto"]).arg(&self.store).arg(&copy);
        child::succeed(command)?;
        let none: Option<&str> = None;
        mount(Some(&copy), &self.store, none, MsFlags::MS_BIND, none)
            .with_context(|| format!("a copy cannot be mounted on {}", self.store.display()))?;
        self.mounted = true;
        Ok(())
    }

    fn take_away(&mut self) -> Result<()> {
        if self.mounted {
            umount2(&self.store, MntFlags::MNT_DETACH)?;
            self.mounted = false;
            fs::remove_dir_all(self.scratch.path().join("store"))?;
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The mount ends with this process in any case; the copy with the folder it lies in.
        let _ = self.take_away();
    }
}
