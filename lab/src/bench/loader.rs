//! `lab bench loader`: measures the cost and the effect of the loader patch. The same programs are
//! started by an unpatched loader, by a patched one without notes, with notes and with package
//! caches, in turn. The first variant runs twice as a control.
//!
//! Run paths are absolute, so each variant has its copy of the store mounted at the store's own
//! path ([`Place`]), and all variants have the same paths.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::calm::{measure, variant};
use super::machine::write_raw;
use crate::becalm::fix;
use crate::stored::{self, Place};
use crate::words::naming;

/// The programs, with an argument that makes them exit.
const PROGRAMS: [&str; 3] = ["inkscape", "convert-im6.q16", "emacs-nox"];
const ARGUMENT: &str = "--version";

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct LoaderBench {
    /// The becalm that writes notes and caches
    #[arg(long)]
    becalm: PathBuf,
    /// Libraries of a patched glibc that trusts the store: PREFIX/lib of lab build-loader
    #[arg(long, value_name = "DIR")]
    patched: PathBuf,
    /// Libraries of the same build without the patch (lab build-loader --unpatched)
    #[arg(long, value_name = "DIR")]
    unpatched: PathBuf,
    /// The store
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// File for the raw data, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// Measures each program and prints a table.
///
/// # Errors
/// Returns an error if this is not root, a tool is missing, a program fails, or the raw data cannot
/// be written.
pub(super) fn run(args: &LoaderBench) -> Result<()> {
    let store = args.store.canonicalize().with_context(naming(&args.store))?;
    let places = places(args, &store)?;
    let mut all = Vec::new();
    for name in PROGRAMS {
        let program = stored::program(&store, name)?;
        let home = [("HOME", "/dev/null/home".to_owned())];
        let variants = places.iter().map(|(way, place)| {
            let enter = place.clone();
            let mut variant = variant(way, &[], (&program, &[ARGUMENT]), &home);
            variant.enter = Some(Arc::new(move || Ok(enter.enter()?)));
            variant
        });
        let variants: Vec<_> = variants.collect();
        all.extend(Place::plain()?.run(|| measure(name, &variants, args.rounds))?);
    }
    write_raw(args.raw.as_deref(), &store, json!({ "times": all }))
}

/// Returns the places of the variants; the first one is the base of all ratios.
fn places(args: &LoaderBench, store: &Path) -> Result<Vec<(&'static str, Arc<Place>)>> {
    let libraries: [(_, &PathBuf, Option<&str>); 4] = [
        ("unpatched", &args.unpatched, None),
        ("patched", &args.patched, None),
        ("patched, notes", &args.patched, Some("note")),
        ("patched, caches", &args.patched, Some("ldcache")),
    ];
    let becalm = args.becalm.canonicalize().with_context(naming(&args.becalm))?;
    let stored = store.to_str().context("a store with a name in UTF-8")?;
    let place = |(name, folder, strategy): (_, &PathBuf, Option<&str>)| {
        let place = Place::of(store)?;
        place.run(|| {
            stored::set_libc(store, std::slice::from_ref(folder))?;
            strategy.map_or(Ok(()), |strategy| fix(&becalm, strategy, stored))
        })?;
        Ok((name, Arc::new(place)))
    };
    libraries.into_iter().map(place).collect()
}
