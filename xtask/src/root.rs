//! Reads roots of other machines, as `scripts/sysroots` creates them: their objects and their
//! emulators.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use becalm_core::elf::{self, ObjectView};
use becalm_host::{WalkOptions, find_objects};

/// Returns the programs and libraries of a root that a loader can load, by path.
pub(crate) fn objects(root: &Path) -> Vec<(PathBuf, ObjectView)> {
    let found = find_objects(&[root.join("usr")], WalkOptions::default());
    let parsed = |path: PathBuf| {
        let view = elf::parse(fs::read(&path).ok()?.as_slice()).ok()?;
        view.dynamic.is_some().then_some((path, view))
    };
    found.objects.into_iter().filter_map(|object| parsed(object.path)).collect()
}

/// Returns the emulator of a machine, as `uname -m` names it.
///
/// # Errors
/// Returns an error if it is not installed.
pub(crate) fn emulator(machine: &str) -> Result<PathBuf> {
    let path = Path::new("/usr/bin").join(format!("qemu-{machine}-static"));
    ensure!(path.is_file(), "{} is missing (Debian: qemu-user-static)", path.display());
    Ok(path)
}
