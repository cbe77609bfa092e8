//! Index files: checked when they are read, and written to a temporary file that is renamed.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use becalm_core::index::{Index, Ranged, Table, Target, module_is_whole, split};
use becalm_host::read_regular;
use becalm_host::write::{WriteOptions, Writer};
use bstr::{BString, ByteSlice};

use crate::index::error::{damaged, no_name};
use crate::index::platforms;
use crate::index::trust::{self, Rule, TrustedFile};
use crate::path::{at, path_of};

pub use becalm_host::index_store::is_index;

/// An index with which programs are started.
#[derive(Debug)]
pub struct Opened {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its header; the rest is read when it is needed.
    pub index: Ranged<TrustedFile>,
    /// The time when it was written, or last compared with the files.
    pub modified: Option<SystemTime>,
}

/// Opens an index with which programs are started. Only the header and the parts that are read are
/// checked.
///
/// # Errors
/// Returns an error if the file does not exist, is not an index, or could be written by another
/// user ([`trust`]).
pub fn open(path: &Path) -> Result<Opened> {
    let path = std::path::absolute(path).with_context(at(path))?;
    let file = trust::open(&path)?;
    opened(path, file)
}

/// As [`open`], for an absolute path; `None` if the file does not exist.
///
/// # Errors
/// Returns an error if the file is not an index, or could be written by another user.
pub fn open_if_there(path: &Path) -> Result<Option<Opened>> {
    match trust::open(path) {
        Err(error) if error.is_missing() => Ok(None),
        file => opened(path.to_owned(), file?).map(Some),
    }
}

fn opened(path: PathBuf, file: TrustedFile) -> Result<Opened> {
    if !can_be_named(&path) {
        return Err(no_name(&path));
    }
    let (length, modified) = (file.facts.len(), file.facts.modified().ok());
    let index = Ranged::open(file, length).map_err(damaged(&path))?;
    Ok(Opened { path, index, modified })
}

/// Returns true if `LD_AUDIT` can name the file: the loader splits its value at colons and replaces
/// tokens in it.
pub fn can_be_named(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.as_os_str().as_bytes().find_byteset(b":$").is_none()
}

/// The complete contents of an index file.
pub struct Whole {
    /// The machine.
    pub target: Target,
    /// The content of the index.
    pub index: Index,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// The table alone.
    pub table: Vec<u8>,
}

/// Reads an index file.
///
/// # Errors
/// Returns an error if the file does not exist or is not an undamaged index.
pub fn read(path: &Path) -> Result<Whole> {
    let bytes = read_regular(path).with_context(at(path))?;
    whole(path, bytes)
}

/// The machines and contents of the indexes that this run has read, and the files that are not indexes, by path.
#[derive(Debug, Default)]
pub struct Indexes(Mutex<HashMap<BString, Option<Read>>>);

/// The machine and the content of an index.
pub type Read = Arc<(Target, Index)>;

impl Indexes {
    /// Returns the index at a path, read once; `None` if the file is no index.
    pub fn read(&self, path: &BString) -> Option<Read> {
        let read = || {
            let place = path_of(path.as_ref());
            let whole = is_index(&place).then(|| read(&place).ok())??;
            Some(Arc::new((whole.target, whole.index)))
        };
        self.0.lock().ok()?.entry(path.clone()).or_insert_with(read).clone()
    }
}

/// Reads an index file as the base of a new one: only root and this user may be able to write it.
///
/// # Errors
/// Returns an error if the file does not exist, is not trusted, or is not an undamaged index.
pub fn read_trusted(path: &Path) -> Result<Whole> {
    whole(path, trusted_bytes(path)?)
}

/// Reads a file that only root and this user may be able to write.
pub(crate) fn trusted_bytes(path: &Path) -> Result<Vec<u8>> {
    let absolute = std::path::absolute(path).with_context(at(path))?;
    let mut bytes = Vec::new();
    let read = trust::open(&absolute)?.file.read_to_end(&mut bytes);
    read.with_context(at(path))?;
    Ok(bytes)
}

fn whole(path: &Path, bytes: Vec<u8>) -> Result<Whole> {
    let (_, of_table) = split(&bytes).map_err(damaged(path))?;
    let table = Table::read(of_table).map_err(damaged(path))?;
    if !module_is_whole(&bytes).map_err(damaged(path))? {
        return Err(damaged(path)("the index is damaged: its module's check does not fit").into());
    }
    let index = table.index().map_err(damaged(path))?;
    let (target, table) = (table.target(), of_table.to_vec());
    Ok(Whole { target, index, table, bytes })
}

/// Checks before the work that an index can be written there.
///
/// # Errors
/// Returns an error if it cannot be written, or if another kind of file is there.
pub fn check_place(path: &Path) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let access = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK);
    access.map_err(std::io::Error::from).with_context(at(dir))?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(at(path)),
        Ok(_) if is_index(path) => Ok(()),
        Ok(_) => {
            let path = path.display();
            Err(anyhow!("{path}: not an index; not overwritten"))
        }
    }
}

/// Writes an index beside its place and renames it, so that processes keep the one they have. The
/// directory for `LD_AUDIT` is made before the index gets its name, so a reader that finds the
/// index finds both. If several processes write the same index at the same time, the last one wins.
/// A symbolic link is replaced and not followed.
///
/// # Errors
/// Returns an error if that fails; the old index is then unchanged.
pub fn write(path: &Path, target: Target, bytes: &[u8], rule: Rule) -> Result<()> {
    let writer = Writer::under(rule, WriteOptions::default());
    let dir = platforms::dir_of(path);
    let is_new_dir = dir.symlink_metadata().is_err();
    let write = || -> Result<()> {
        platforms::make(&writer, path, target)?;
        Ok(writer.replace(path, bytes, 0o644)?)
    };
    write().inspect_err(|_| {
        // A directory without an index leads nowhere. Another process may have written one.
        if is_new_dir && path.symlink_metadata().is_err() {
            let _ = writer.remove_with_files(&dir);
        }
    })
}
