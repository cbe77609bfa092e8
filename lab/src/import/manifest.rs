//! `manifest.json`: lists a store's objects and their originals.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::graph::Kind;
use crate::words::{hash, naming};

const SCHEMA: &str = "becalm-lab/store/1";
const NAME: &str = "manifest.json";

/// A store's table of contents. All paths are absolute, as run paths are.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Identifies this format; empty in a plan.
    pub(super) schema: String,
    /// The store's root.
    pub(crate) store: PathBuf,
    /// True if run paths are `DT_RPATH` and the C library is the system's.
    #[serde(default)]
    pub(crate) rpath: bool,
    /// Every program, by name.
    pub(crate) programs: Vec<ProgramEntry>,
    /// Every object, by path.
    pub(crate) objects: Vec<Object>,
    /// The store's own loader, or the system's.
    #[serde(skip)]
    pub(crate) loader: PathBuf,
    /// Links and targets of data that a program searches for relative to itself.
    #[serde(skip)]
    pub(crate) data: Vec<(PathBuf, PathBuf)>,
}

/// A program of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProgramEntry {
    /// Its name in the lab.
    pub(crate) name: String,
    /// Its file in the store.
    pub(crate) path: PathBuf,
    /// The file from which it was made.
    pub(crate) original: PathBuf,
}

/// An object of the store. What is not in the file is known of a planned one alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Object {
    /// Its file in the store.
    pub(crate) path: PathBuf,
    /// The real file from which it is made.
    pub(crate) original: PathBuf,
    /// Its kind.
    pub(crate) kind: Kind,
    /// The name of its package's directory.
    pub(crate) package: String,
    /// A hash of all that it depends on ([`Object::made_by`]); empty in a plan.
    #[serde(default)]
    pub(super) made: String,
    /// Other names in the same directory: needed strings that differ from its soname.
    #[serde(skip)]
    pub(crate) links: BTreeSet<String>,
    /// Each needed string, in order, and the store's file that must be found for it.
    #[serde(skip)]
    pub(crate) needs: Vec<(String, PathBuf)>,
    /// Its run path: absolute directories in search order.
    #[serde(skip)]
    pub(crate) run_path: Vec<PathBuf>,
    /// The interpreter to set.
    #[serde(skip)]
    pub(crate) interpreter: Option<PathBuf>,
    /// True if it is copied unchanged: the loader and libc, which no tool may rewrite, and objects
    /// without anything to change.
    #[serde(skip)]
    pub(crate) untouched: bool,
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
    pub(crate) fn write(mut self, patchelf: &str) -> Result<()> {
        self.schema = SCHEMA.to_owned();
        for object in &mut self.objects {
            object.made = object.made_by(patchelf)?;
        }
        let draft = tempfile::NamedTempFile::new_in(&self.store)?;
        fs::write(draft.path(), serde_json::to_string_pretty(&self)? + "\n")?;
        draft.persist(self.store.join(NAME))?;
        Ok(())
    }

    /// Returns true for a file that stays where it is.
    pub(crate) fn is_of_system(&self, path: &Path) -> bool {
        self.rpath && !path.starts_with(&self.store)
    }

    /// Returns the object at a path of the store.
    pub(crate) fn object(&self, path: &Path) -> Option<&Object> {
        let index = self.objects.binary_search_by(|object| object.path.as_path().cmp(path));
        index.ok().map(|index| &self.objects[index])
    }

    /// Returns true if this planned object is in the store, made from the current original by the
    /// same tool.
    pub(crate) fn holds(&self, planned: &Object, patchelf: &str) -> bool {
        let made = planned.made_by(patchelf);
        self.object(&planned.path).zip(made.ok()).is_some_and(|(old, made)| old.made == made)
    }
}

impl Object {
    /// Returns a hash of all that a planned object depends on: the plan, the tool that writes the run path, and
    /// sizes and times of the original and of its file.
    fn made_by(&self, patchelf: &str) -> Result<String> {
        let files = (fingerprint(&self.original)?, fingerprint(&self.path)?);
        Ok(hash(&format!("{patchelf} {self:?} {files:?}")))
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
