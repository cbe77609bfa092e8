//! Chooses the list of files for all tools.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use becalm_host::{Format, WalkOptions, find_objects};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::elf::Dynamic;

/// Returns the first `count` objects below `folder`, in order of path, that need other objects.
/// becalm's own parser has no part in the choice.
///
/// # Errors
/// Returns an error if there are fewer.
pub(crate) fn choose(folder: &Path, count: usize) -> Result<Vec<PathBuf>> {
    let found = find_objects(&[folder.to_owned()], WalkOptions::default());
    let mut list: Vec<PathBuf> = found
        .objects
        .into_par_iter()
        .filter(|object| object.format == Format::Elf)
        .map(|object| object.path)
        .filter(|path| path.to_str().is_some())
        .filter(|path| Dynamic::read(path).is_ok_and(|dynamic| !dynamic.needed.is_empty()))
        .collect();
    if list.len() < count {
        bail!("{}: {} such files, {count} wanted", folder.display(), list.len());
    }
    list.truncate(count);
    Ok(list)
}

/// Returns the SHA-256 of the list's lines, which identifies it.
pub(crate) fn digest(list: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    for path in list {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
