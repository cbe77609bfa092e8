//! A copy in the store's place: run paths are absolute, so what is changed must lie under the
//! store's own name, and only what is done in here sees it there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_host::room::{Bind, Room};
use tempfile::TempDir;

use crate::child;

/// A store whose files may be changed.
pub(super) struct Place {
    room: Room,
    /// Where the copy lies.
    _copy: TempDir,
}

impl Place {
    /// With a fresh copy of a store.
    ///
    /// # Errors
    /// No such store, or no right to mount.
    pub(super) fn of(store: &Path) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let copy: PathBuf = scratch.path().join("store");
        let mut command = child::command("cp");
        command.args(["-a", "--reflink=auto"]).args([store, &copy]);
        child::succeed(command)?;
        let room = Room::new(&[Bind { from: copy, to: store.to_owned() }])
            .with_context(|| format!("a copy in the place of {}", store.display()))?;
        Ok(Self { room, _copy: scratch })
    }

    /// Does something that sees the copy in the store's place, as do the programs that it
    /// starts.
    ///
    /// # Errors
    /// Those of the work, or there is no way in.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.room.run(work)?
    }
}
