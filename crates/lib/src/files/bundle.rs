//! File bundles of CernVM-FS: `.cvmfsbundle-NAME` beside the file `NAME`, whose first open makes
//! the client fetch all files of the bundle at once (`CVMFS_PREFETCH_FILEBUNDLES`).
//!
//! A bundle is a JSON object: `name` (`CVMFS_BUNDLE`), `version` (`1.0.0`), `encoding` (`UTF-8`),
//! `dependencies` (a list of paths that begin at the root of the repository). It names regular
//! files; the client has the links in its catalogs.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use serde::Serialize;
use thiserror::Error;

use crate::files::{FileUse, StartFile};

/// The directory below which each repository is mounted.
const MOUNTS: &str = "/cvmfs";

/// The reason why there is no bundle for a start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoBundle {
    /// The program is not in the repository.
    #[error(
        "neither below /cvmfs/REPOSITORY nor below --repository: CernVM-FS bundles have paths \
         within one repository"
    )]
    Outside,
    /// A path that a bundle cannot have: it is not UTF-8.
    #[error("{}: a bundle's paths are UTF-8", crate::escape::shown(.0.as_ref()))]
    NotText(BString),
}

/// A file bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bundle {
    /// The name of the format.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The encoding of the paths.
    pub encoding: &'static str,
    /// The files, as absolute paths within the repository, sorted.
    pub dependencies: Vec<String>,
}

impl Bundle {
    /// Makes the bundle of a start for the file that triggers it: the program, or the outermost
    /// script. `repository` is the mount point of the repository; without it, the program's own
    /// below `/cvmfs`. Files outside the repository are left out, and so is the trigger.
    ///
    /// # Errors
    /// Returns [`NoBundle`] if the program is outside the repository, or a path is not UTF-8.
    pub fn of(files: &[StartFile], repository: Option<&Path>) -> Result<Self, NoBundle> {
        let is_file = |file: &&StartFile| file.kind != FileUse::Link;
        let trigger = files.iter().find(is_file).ok_or(NoBundle::Outside)?;
        let own = || repository_of(&trigger.path);
        let root = repository.map(Path::to_owned).or_else(own).ok_or(NoBundle::Outside)?;
        let root = crate::path::path_bytes(&root);
        let below = |file: &StartFile| {
            let path = file.path.strip_prefix(root.trim_end_with(|c| c == '/'))?;
            path.starts_with(b"/").then(|| BString::from(path))
        };
        below(trigger).ok_or(NoBundle::Outside)?;
        let others = files.iter().filter(is_file).filter(|file| file.path != trigger.path);
        let text = |path: BString| {
            String::from_utf8(path.into()).map_err(|e| NoBundle::NotText(e.into_bytes().into()))
        };
        let mut dependencies: Vec<String> =
            others.filter_map(below).map(text).collect::<Result<_, _>>()?;
        dependencies.sort_unstable();
        Ok(Self { name: "CVMFS_BUNDLE", version: "1.0.0", encoding: "UTF-8", dependencies })
    }
}

/// Returns the mount point of the repository that a path is in.
fn repository_of(path: &BString) -> Option<PathBuf> {
    let path = path.to_path().ok()?;
    let name = path.strip_prefix(MOUNTS).ok()?.components().next()?;
    Some(Path::new(MOUNTS).join(name))
}
