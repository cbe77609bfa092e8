//! The table of paths of an index: made with it, brought up to date, compared with the files.

use std::path::PathBuf;

use becalm_core::index::build::is_in_package;
use becalm_core::index::paths::{Package, Paths};
use becalm_host::index_store::Indexed;
use becalm_host::path_table::{
    LeftOut, PathStore, PathTable, PathTableError, path_table, path_table_is_current,
};
use bstr::BString;
use rustc_hash::FxHashMap;

use crate::index::report::{self, LeftOutPackage};
use crate::path::path_of;

/// The stores whose paths are indexed. Entries of a store other than `<hash>-<name>` are packages if
/// the user named the store as one.
#[must_use]
pub fn stores(stores: &[PathBuf], named: &[PathBuf]) -> Vec<PathStore> {
    let store = |path: &PathBuf| PathStore { path: path.clone(), any_name: named.contains(path) };
    stores.iter().map(store).collect()
}

/// The stores of a table.
#[must_use]
pub fn stores_of(paths: &Paths) -> Vec<PathStore> {
    let is_other = |package: &Package| !is_in_package(&[&package.name[..], b"/"].concat());
    let store = |(number, root): (usize, &becalm_core::index::paths::Root)| PathStore {
        path: path_of(root.path.as_ref()),
        any_name: paths
            .packages
            .iter()
            .any(|package| package.root as usize == number && is_other(package)),
    };
    paths.roots.iter().enumerate().map(store).collect()
}

/// Adds a table of the paths of stores to an index. Packages of `old` that are as they were are not
/// read again.
///
/// # Errors
/// Returns [`PathTableError`] if a store cannot be listed.
pub fn add(
    indexed: &mut Indexed,
    stores: &[PathStore],
    old: Option<&Paths>,
) -> Result<report::PathTable, PathTableError> {
    let PathTable { paths, read, count, left_out } = path_table(stores, old)?;
    let left = |(path, why): (BString, LeftOut)| LeftOutPackage { path, reason: why.words() };
    let report = report::PathTable {
        packages: paths.packages.len(),
        paths: count,
        links: paths.packages.iter().map(|package| package.table.links().len()).sum(),
        read,
        left_out: left_out.into_iter().map(left).collect(),
    };
    for machine in &mut indexed.machines {
        machine.index.paths = Some(paths.clone());
    }
    Ok(report)
}

/// True if nothing has changed since the table was made.
#[must_use]
pub fn is_current(paths: &Paths) -> bool {
    path_table_is_current(paths)
}

/// The packages that are as they were by their fingerprints, and have other paths.
///
/// # Errors
/// Returns [`PathTableError`] if a store cannot be listed.
pub fn differences(old: &Paths) -> Result<Vec<BString>, PathTableError> {
    let new = path_table(&stores_of(old), None)?.paths;
    let now: FxHashMap<u64, &Package> =
        new.packages.iter().map(|package| (package.state, package)).collect();
    let differs = |was: &&Package| {
        now.get(&was.state)
            .is_some_and(|now| now.fingerprint == was.fingerprint && now.table != was.table)
    };
    let path = |package: &Package| {
        let root = old.roots.get(package.root as usize).map(|root| root.path.clone());
        [&root.unwrap_or_default()[..], b"/", &package.name[..]].concat().into()
    };
    Ok(old.packages.iter().filter(differs).map(path).collect())
}
