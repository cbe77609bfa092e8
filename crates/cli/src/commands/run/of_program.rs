//! An index for one program, made when it is first started and kept in the cache directory.
//!
//! Its name holds who the program is (path, inode, times), what `LD_LIBRARY_PATH` names and
//! in which state: where any of that changes, another index is made. It knows the objects of
//! the start alone; `becalm index` knows whole stores.

use std::env;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use becalm_core::loader::load::Role;
use becalm_host::OsFs;
use becalm_host::index_store::{IndexOptions, index_files};
use rustc_hash::FxHasher;

use super::program::Program;
use crate::commands::index::file::{self, Opened};
use crate::commands::index::module::{Modules, Sealed};
use crate::commands::index::{dirs_of, path_of, places, prefixes};
use crate::flags::{RunFlags, StoreFlag};
use crate::output::words;

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
        return Ok(index);
    }
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|error| anyhow!("{}: {}", folder.display(), words(&error)))?;
    let sealed = make(os, program, &dirs, &prefixes(&asked.store))?;
    file::write(&path, &sealed)?;
    file::open(&path)
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
