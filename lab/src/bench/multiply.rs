//! Creates a store of many objects for measurements of speed: the packages of an imported store,
//! repeated under other hashes.
//!
//! The run paths stay those of the imported store, so every object of the large one has its closure
//! there.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::import::manifest::Manifest;
use crate::words::hash;

/// Fills the empty folder `out` with packages of `store` until it has `to` objects. The last round stops at
/// the first package that reaches this number.
///
/// # Errors
/// Returns an error if `store` is not an imported store, or an error of the file system.
pub(super) fn run(store: &Path, out: &Path, to: usize) -> Result<()> {
    let manifest = Manifest::read(store)?;
    let manifest = manifest.with_context(|| format!("{}: no imported store", store.display()))?;
    let mut packages: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &manifest.objects {
        *packages.entry(&object.package).or_default() += 1;
    }
    ensure!(!packages.is_empty(), "{}: an empty store", store.display());
    let rounds = (0..).flat_map(|round| packages.iter().map(move |package| (round, package)));
    let mut objects = 0;
    for (round, (package, of_package)) in rounds {
        if objects >= to {
            break;
        }
        // The name of the package's directory with the hash of another round.
        let rest = package.split_once('-').map_or(*package, |(_, rest)| rest);
        let target = out.join(format!("{}-{rest}", hash(&format!("{package} {round}"))));
        child::whole(child::command("cp").arg("-a").args([&store.join(package), &target]))?;
        objects += of_package;
    }
    Ok(())
}
