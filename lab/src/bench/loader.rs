//! `lab bench loader`: measures the cost and the effect of the loader patch. The same programs are
//! started by an unpatched loader, by a patched one without notes, with notes and with package
//! caches, in turn. The first variant runs twice as a control.
//!
//! Run paths are absolute, so each variant has its copy of the store mounted at the store's own
//! path ([`MountNamespace::with_copy`]), and all variants have the same paths.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::Common;
use super::calm::{measure, variant};
use crate::becalm::fix;
use crate::mount_namespace::MountNamespace;
use crate::stored;
use crate::words::naming;

/// The programs, with an argument that makes them exit.
const PROGRAMS: [&str; 3] = ["inkscape", "convert-im6.q16", "emacs-nox"];
const ARGUMENT: &str = "--version";

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct LoaderBench {
    #[command(flatten)]
    common: Common,
    /// Libraries of a patched glibc that trusts the store: PREFIX/lib of lab build-loader
    #[arg(long, value_name = "DIR")]
    patched: PathBuf,
    /// Libraries of the same build without the patch (lab build-loader --unpatched)
    #[arg(long, value_name = "DIR")]
    unpatched: PathBuf,
}

/// Measures each program and prints a table.
///
/// # Errors
/// Returns an error if this is not root, a tool is missing, a program fails, or the raw data cannot
/// be written.
pub(super) fn run(args: &LoaderBench) -> Result<()> {
    let common = &args.common;
    let store = common.store.canonicalize().with_context(naming(&common.store))?;
    let places = places(args, &store)?;
    let mut all = Vec::new();
    for name in PROGRAMS.into_iter().filter(|name| common.is_wanted(name)) {
        let program = stored::program(&store, name)?;
        let home = [("HOME", "/dev/null/home".to_owned())];
        let variants = places.iter().map(|(way, place)| {
            let enter = place.clone();
            let mut variant = variant(way, &[], (&program, &[ARGUMENT]), &home);
            variant.enter = Some(Arc::new(move || Ok(enter.enter()?)));
            variant
        });
        let variants: Vec<_> = variants.collect();
        let plain = MountNamespace::new(&[])?;
        all.extend(plain.run(|| measure(name, &variants, common.rounds))??);
    }
    common.write(json!({ "times": all }))
}

/// Returns the places of the variants; the first one is the base of all ratios.
fn places(args: &LoaderBench, store: &Path) -> Result<Vec<(&'static str, MountNamespace)>> {
    let libraries: [(_, &PathBuf, Option<&str>); 4] = [
        ("unpatched", &args.unpatched, None),
        ("patched", &args.patched, None),
        ("patched, notes", &args.patched, Some("note")),
        ("patched, caches", &args.patched, Some("ldcache")),
    ];
    let becalm = &args.common.becalm;
    let becalm = becalm.canonicalize().with_context(naming(becalm))?;
    let place = |(name, folder, strategy): (_, &PathBuf, Option<&str>)| {
        let place = MountNamespace::with_copy(store)?;
        place.run(|| {
            stored::set_libc(store, std::slice::from_ref(folder))?;
            strategy.map_or(Ok(()), |strategy| fix(&becalm, strategy, store))
        })??;
        Ok((name, place))
    };
    libraries.into_iter().map(place).collect()
}
