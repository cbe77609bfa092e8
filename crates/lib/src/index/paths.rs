//! The table of paths of an index: makes, updates and checks it.

use std::path::PathBuf;

use becalm_core::index::Index;
use becalm_core::index::build::is_in_package;
use becalm_core::index::paths::{Package, Paths, Root};
use becalm_host::HostError;
use becalm_host::index_store::Indexed;
use becalm_host::path_table::{CHANGING, LeftOut, Packages, PathStore, PathTable, path_table};
use bstr::BString;
use rustc_hash::FxHashMap;

use crate::index::options::Options;
use crate::index::report::{self, LeftOutPackage};
use crate::path::{path_of, real};

/// Adds chosen packages of a store to the stores whose paths are indexed.
pub fn choose(stores: &mut Vec<PathStore>, chosen: &PathStore) {
    let path = real(&chosen.path);
    match stores.iter_mut().find(|store| real(&store.path) == path) {
        None => stores.push(chosen.clone()),
        Some(PathStore { packages: Packages::Chosen(known), .. }) => {
            let Packages::Chosen(more) = &chosen.packages else { return };
            let is_new = |name: &&BString| !known.contains(name);
            known.extend(more.iter().filter(is_new).cloned().collect::<Vec<_>>());
        }
        // All packages of the store are already included.
        Some(_) => {}
    }
}

/// Returns the stores whose paths are indexed: the requested ones, and those of the index that is
/// updated.
pub(super) fn stores_to_list(
    options: &Options,
    stores: &[PathBuf],
    old: Option<&Index>,
) -> Option<Vec<PathStore>> {
    let of_old = old.and_then(|old| old.paths.as_ref()).map(stores_of);
    let is_named = options.paths || (of_old.is_some() && !options.stores.is_empty());
    let of_old = of_old.unwrap_or_default();
    let store = |path: &PathBuf| {
        let any = PathStore { path: path.clone(), packages: Packages::Any };
        // A store that was indexed with any package names stays so.
        let is_named = options.prefixes_are_named && options.prefixes.contains(path);
        match is_named || of_old.contains(&any) {
            true => any,
            false => PathStore { packages: Packages::Hashed, ..any },
        }
    };
    let mut all = match is_named && !stores.is_empty() {
        true => stores.iter().map(store).collect(),
        false => of_old,
    };
    for store in options.traced.iter().flat_map(|traced| &traced.stores) {
        choose(&mut all, store);
    }
    (!all.is_empty()).then_some(all)
}

/// Returns the stores of a table.
#[must_use]
pub fn stores_of(paths: &Paths) -> Vec<PathStore> {
    let is_other = |package: &&Package| !is_in_package(&[&package.name[..], b"/"].concat());
    let store = |(number, root): (usize, &Root)| {
        let mut of_root = paths.packages.iter().filter(|p| p.root as usize == number);
        let packages = match root.is_chosen {
            true => Packages::Chosen(of_root.map(|p| p.name.clone()).collect()),
            false if of_root.any(|package| is_other(&package)) => Packages::Any,
            false => Packages::Hashed,
        };
        PathStore { path: path_of(root.path.as_ref()), packages }
    };
    paths.roots.iter().enumerate().map(store).collect()
}

/// Adds a table of the paths of stores to an index. Unchanged packages of `old` are not read again.
/// Times are trusted below `trusted` on every file system.
///
/// # Errors
/// Returns an error if a store cannot be listed.
pub fn add(
    indexed: &mut Indexed,
    stores: &[PathStore],
    old: Option<&Paths>,
    trusted: &[PathBuf],
) -> Result<report::PathTable, HostError> {
    let PathTable { paths, read, left_out } = path_table(stores, old, trusted)?;
    let left = |(path, why): (BString, LeftOut)| LeftOutPackage {
        path,
        reason: why,
        passing: why == CHANGING,
    };
    let report = report::PathTable {
        packages: paths.read().count(),
        paths: paths.count(),
        links: paths.packages.iter().map(|package| package.table.links.len()).sum(),
        read,
        left_out: left_out.into_iter().map(left).collect(),
        outside: Vec::new(),
    };
    for machine in &mut indexed.machines {
        machine.index.paths = Some(paths.clone());
    }
    Ok(report)
}

/// Returns the packages with unchanged fingerprints and changed paths.
///
/// # Errors
/// Returns an error if a store cannot be listed.
pub fn differences(old: &Paths) -> Result<Vec<BString>, HostError> {
    // What is in the table was trusted when it was made.
    let roots: Vec<PathBuf> = old.roots.iter().map(|root| path_of(root.path.as_ref())).collect();
    let new = path_table(&stores_of(old), None, &roots)?.paths;
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
