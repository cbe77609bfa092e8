//! An index for one program, made when it is first started and kept in the cache directory.
//!
//! Its name holds who the program is (path, inode, times), what `LD_LIBRARY_PATH` names and
//! in which state: where any of that changes, another index is made. It knows the objects of
//! the start alone; `becalm index` knows whole stores. The cache keeps so many of them, those
//! used last; a process whose index goes keeps what it has mapped.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use becalm_core::loader::load::Role;
use becalm_host::OsFs;
use becalm_host::index_store::{IndexOptions, index_files};
use rustc_hash::FxHasher;

use super::program::Program;
use crate::commands::index::file::{self, Opened};
use crate::commands::index::module::{Modules, Sealed};
use crate::commands::index::{dirs_of, path_of, places, platforms, prefixes};
use crate::flags::{RunFlags, StoreFlag};
use crate::output::words;

/// Indexes of programs that are kept: some hundred kilobytes each.
const KEPT: usize = 100;

/// The index of a program, made where it is not there.
///
/// # Errors
/// Where it cannot be made or kept.
pub(super) fn index(os: &OsFs, asked: &RunFlags, program: &Program) -> Result<Opened> {
    let folder = places::cache().context("no home directory for the cache; name an --index")?;
    let dirs: Vec<PathBuf> =
        env::var_os("LD_LIBRARY_PATH").iter().flat_map(|list| dirs_of(&[list])).collect();
    let path = folder.join(name(program, &dirs, &asked.store)?);
    if path.is_file()
        && let Ok(index) = file::open(&path)
    {
        // Used now; where that cannot be said it is only the sooner gone.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok(index);
    }
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|error| anyhow!("{}: {}", folder.display(), words(&error)))?;
    let sealed = make(os, program, &dirs, &prefixes(&asked.store))?;
    file::write(&path, &sealed)?;
    make_room(&folder);
    file::open(&path)
}

/// Takes away the indexes used longest ago, so that [`KEPT`] are left. What cannot be taken away
/// stays: the next one tries again.
fn make_room(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    let is_index = |path: &PathBuf| path.extension() == Some(OsStr::new("so"));
    let used = |path: PathBuf| Some((path.metadata().ok()?.modified().ok()?, path));
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_index);
    let mut indexes: Vec<(SystemTime, PathBuf)> = paths.filter_map(used).collect();
    indexes.sort();
    for (_, path) in indexes.iter().rev().skip(KEPT) {
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_dir_all(platforms::dir_of(path));
    }
}

fn make(os: &OsFs, program: &Program, dirs: &[PathBuf], stores: &[PathBuf]) -> Result<Sealed> {
    let closure = program.closure(os)?;
    let objects = closure.load.objects.iter();
    let objects = objects.filter(|object| matches!(object.role, Role::Program | Role::Library));
    let files: Vec<PathBuf> = objects.map(|object| path_of(object.path.as_ref())).collect();
    let options = IndexOptions { prefixes: stores, dirs, ..IndexOptions::default() };
    Modules::new(None)?.seal(index_files(os, &files, options))
}

/// `inkscape-0123456789abcdef.so`.
fn name(program: &Program, dirs: &[PathBuf], store: &StoreFlag) -> Result<String> {
    let mut hasher = FxHasher::default();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    store.store.hash(&mut hasher);
    let stamp = |path: &Path, hasher: &mut FxHasher| -> std::io::Result<()> {
        path.hash(hasher);
        let facts = path.metadata()?;
        let times = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
        (facts.dev(), facts.ino(), times).hash(hasher);
        Ok(())
    };
    let shown = || program.real.display().to_string();
    stamp(&program.real, &mut hasher).map_err(|error| anyhow!("{}: {}", shown(), words(&error)))?;
    for dir in dirs {
        // One that is not there is hashed by its name alone.
        let _ = stamp(dir, &mut hasher);
    }
    let file = program.real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file: String =
        file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(80).collect();
    Ok(format!("{file}-{:016x}.so", hasher.finish()))
}
