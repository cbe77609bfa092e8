//! `manifest.json`: lists a store's objects and their originals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::graph::Kind;
use super::layout::{Layout, Placed, ProgramEntry};
use crate::words::{hash, naming};

const SCHEMA: &str = "becalm-lab/store/1";
const NAME: &str = "manifest.json";

/// A store's table of contents. All paths are absolute, as run paths are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Identifies this format.
    schema: String,
    /// The store's root.
    store: PathBuf,
    /// True if run paths are `DT_RPATH` and the C library is the system's.
    #[serde(default)]
    pub(crate) rpath: bool,
    /// Every program, by name.
    pub(crate) programs: Vec<ProgramEntry>,
    /// Every object, by path.
    pub(crate) objects: Vec<ObjectEntry>,
}

/// An object of the store.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectEntry {
    /// Its file in the store.
    pub(crate) path: PathBuf,
    /// The file from which it was made.
    pub(crate) original: PathBuf,
    /// Its kind.
    pub(crate) kind: Kind,
    /// The name of its package's directory.
    pub(crate) package: String,
    /// A hash of all that it depends on: the plan, the tool that wrote the run path, and sizes and times of
    /// the original and of this file.
    #[serde(default)]
    made: String,
}

impl Manifest {
    /// Reads the manifest of the store at `store`. Returns `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, has another format, or belongs to another path: a
    /// store's run paths are absolute, so it cannot be moved.
    pub(crate) fn read(store: &Path) -> Result<Option<Self>> {
        let path = store.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(naming(&path)),
        };
        let manifest: Self = serde_json::from_slice(&bytes).with_context(naming(&path))?;
        if manifest.schema != SCHEMA {
            bail!("{}: schema {}, not {SCHEMA}", path.display(), manifest.schema);
        }
        if manifest.store != store {
            bail!("{}: made for {}", path.display(), manifest.store.display());
        }
        Ok(Some(manifest))
    }

    /// Writes the manifest of a planned and written store into it, atomically.
    ///
    /// # Errors
    /// Returns an error if a file's metadata cannot be read or the store cannot be written.
    pub(crate) fn write(layout: Layout, patchelf: &str) -> Result<()> {
        let entries = layout.objects.iter().map(|placed| entry(placed, patchelf));
        let objects = entries.collect::<Result<_>>()?;
        let Layout { store, rpath, programs, .. } = layout;
        let draft = tempfile::NamedTempFile::new_in(&store)?;
        let path = store.join(NAME);
        let manifest = Self { schema: SCHEMA.to_owned(), store, rpath, programs, objects };
        fs::write(draft.path(), serde_json::to_string_pretty(&manifest)? + "\n")?;
        draft.persist(path)?;
        Ok(())
    }

    /// Returns true if this object is in the store as planned, made from the current original by
    /// the same tool.
    pub(crate) fn holds(&self, placed: &Placed, patchelf: &str) -> bool {
        let index = self.objects.binary_search_by(|entry| entry.path.cmp(&placed.path));
        let (Ok(index), Ok(now)) = (index, entry(placed, patchelf)) else { return false };
        self.objects[index] == now
    }
}

/// Returns size and modification time of a file.
///
/// # Errors
/// Returns an error if its metadata cannot be read.
pub(crate) fn fingerprint(path: &Path) -> Result<(u64, SystemTime)> {
    let found = fs::metadata(path).with_context(naming(path))?;
    Ok((found.len(), found.modified()?))
}

fn entry(placed: &Placed, patchelf: &str) -> Result<ObjectEntry> {
    let files = (fingerprint(&placed.original)?, fingerprint(&placed.path)?);
    Ok(ObjectEntry {
        path: placed.path.clone(),
        original: placed.original.clone(),
        kind: placed.kind,
        package: placed.package.directory(),
        made: hash(&format!("{patchelf} {placed:?} {files:?}")),
    })
}
