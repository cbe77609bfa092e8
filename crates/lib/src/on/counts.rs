//! How often programs are started: the starter adds a byte to a file of each (`starter/starter.c`), in the folder
//! of records and copies, which is a disk of this machine and this user's alone.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use becalm_core::index::hash;
use becalm_host::write::{Existing, Writer};

use crate::on::Program;
use crate::path::path_bytes;
use crate::trees;

/// Returns the folder for the programs of a folder of links; makes it.
pub(super) fn folder(links: &Path) -> Option<PathBuf> {
    trees::folder::lasting(&name(links)).filter(|folder| !trees::is_slow(folder))
}

/// Returns the same, if it is there.
pub(super) fn existing(links: &Path) -> Option<PathBuf> {
    let folder = trees::folder::existing_lasting()?.join(name(links));
    folder.is_dir().then_some(folder)
}

fn name(links: &Path) -> String {
    format!("on-{:016x}", hash::bytes(0, &path_bytes(links)))
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.starts"))
}

/// Makes the file of a program. An existing one stays, and a program without one is not counted.
pub(super) fn begin(writer: &Writer, folder: &Path, name: &str) {
    let _ = writer.write_new(&file(folder, name), b"", 0o600, |_: &Existing| false);
}

/// Adds to a program how often it was started, and since when.
pub(super) fn read(folder: &Path, program: &mut Program) {
    let Ok(facts) = file(folder, &program.name).symlink_metadata() else { return };
    let since = facts.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    program.starts = Some(facts.len());
    program.counted_since = since.map(|time| time.as_secs());
}

/// Removes the files of programs.
pub(super) fn remove(writer: &Writer, folder: &Path, names: &[String]) {
    for name in names {
        let _ = writer.remove(&file(folder, name));
    }
}

/// Removes the folder, and an empty one above it unless the user has named that.
pub(super) fn clear(writer: &Writer, folder: &Path) {
    let _ = writer.remove_with_files(folder);
    if let Some(above) = folder.parent().filter(|above| trees::folder::is_default(above)) {
        let _ = writer.remove_empty_dir(above);
    }
}
