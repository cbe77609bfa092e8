//! `manifest.json`: lists a store's objects and their originals.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::graph::Kind;
use super::layout::{Layout, Placed, ProgramEntry};
use crate::dpkg::Package;
use crate::patchelf::Patchelf;

const SCHEMA: &str = "becalm-lab/store/1";
const NAME: &str = "manifest.json";

/// A store's table of contents. All paths are absolute, as run paths are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Identifies this format.
    pub(crate) schema: String,
    /// The store's root.
    pub(crate) store: PathBuf,
    /// The name and version of the tool that wrote the run paths.
    pub(crate) patchelf: String,
    /// The store's own loader, or the system's.
    pub(crate) loader: PathBuf,
    /// True if run paths are `DT_RPATH` and the C library is the system's.
    #[serde(default)]
    pub(crate) rpath: bool,
    /// Every program, by name.
    pub(crate) programs: Vec<ProgramEntry>,
    /// Originals of requested objects that no program needs.
    pub(crate) extras: Vec<PathBuf>,
    /// Every object, by path.
    pub(crate) objects: Vec<ObjectEntry>,
    /// Every package, by name.
    pub(crate) packages: Vec<PackageEntry>,
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
    /// Its needed strings, in order.
    pub(crate) needed: Vec<String>,
    /// Its run path.
    pub(crate) run_path: Vec<PathBuf>,
    /// Other names in the same directory.
    pub(crate) links: BTreeSet<String>,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// The original's size in bytes.
    pub(crate) original_size: u64,
    /// Modification times of the original and of this file, nanoseconds since 1970.
    pub(crate) modified_ns: u128,
}

/// A package of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PackageEntry {
    /// The name of its directory.
    pub(crate) directory: String,
    /// The Debian package.
    #[serde(flatten)]
    pub(crate) package: Package,
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
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        };
        let manifest: Self =
            serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?;
        if manifest.schema != SCHEMA {
            bail!("{}: schema {}, not {SCHEMA}", path.display(), manifest.schema);
        }
        if manifest.store != store {
            bail!("{}: made for {}", path.display(), manifest.store.display());
        }
        Ok(Some(manifest))
    }

    /// Creates the manifest of a planned and written store.
    ///
    /// # Errors
    /// Returns an error if a file's metadata cannot be read.
    pub(crate) fn of(layout: Layout, patchelf: &Patchelf) -> Result<Self> {
        let objects: Vec<ObjectEntry> = layout.objects.iter().map(entry).collect::<Result<_>>()?;
        let packages: BTreeSet<&Package> =
            layout.objects.iter().map(|placed| &placed.package).collect();
        let packages = packages.into_iter().map(|package| PackageEntry {
            directory: package.directory(),
            package: package.clone(),
        });
        Ok(Self {
            schema: SCHEMA.to_owned(),
            store: layout.store,
            patchelf: patchelf.version.clone(),
            loader: layout.loader,
            rpath: layout.rpath,
            programs: layout.programs,
            extras: layout.extras,
            objects,
            packages: packages.collect(),
        })
    }

    /// Writes it into the store atomically.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub(crate) fn write(&self, store: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let draft = tempfile::NamedTempFile::new_in(store)?;
        fs::write(draft.path(), &text)?;
        draft.persist(store.join(NAME))?;
        Ok(())
    }

    /// Returns true if this object is in the store as planned, made from the current original by
    /// the same tool.
    pub(crate) fn holds(&self, placed: &Placed, patchelf: &Patchelf) -> bool {
        if self.patchelf != patchelf.version {
            return false;
        }
        let index = self.objects.binary_search_by(|entry| entry.path.cmp(&placed.path));
        let (Ok(index), Ok(now)) = (index, entry(placed)) else { return false };
        let own_time = fingerprint(&placed.path).map(|(_, time)| nanoseconds(time));
        self.objects[index] == now && own_time.is_ok_and(|time| time == now.modified_ns)
    }
}

/// Returns size and modification time of a file.
///
/// # Errors
/// Returns an error if its metadata cannot be read.
pub(crate) fn fingerprint(path: &Path) -> Result<(u64, SystemTime)> {
    let found = fs::metadata(path).with_context(|| format!("{}", path.display()))?;
    Ok((found.len(), found.modified()?))
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

fn entry(placed: &Placed) -> Result<ObjectEntry> {
    let (original_size, modified) = fingerprint(&placed.original)?;
    let (size, _) = fingerprint(&placed.path)?;
    Ok(ObjectEntry {
        path: placed.path.clone(),
        original: placed.original.clone(),
        kind: placed.kind,
        package: placed.package.directory(),
        needed: placed.needs.iter().map(|(needed, _)| needed.clone()).collect(),
        run_path: placed.run_path.clone(),
        links: placed.links.clone(),
        size,
        original_size,
        modified_ns: nanoseconds(modified),
    })
}
