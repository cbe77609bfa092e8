//! Compares the predicted bindings with real starts, for every relocated slot of each program.
//!
//! Candidates are the dynamic programs of this machine, of lab stores and of foreign sysroots
//! (those of [`crate::differential`]). Each is started with a [`recorder`] as audit module and
//! `LD_BIND_NOW=1`. The recorder serves the memory of the relocated process and ends it before a
//! constructor or `main` runs. [`compare`] compares each slot with the model's, and [`lookups`]
//! each lookup with the output of `LD_DEBUG=bindings`.

mod compare;
mod lookups;
pub(crate) mod recorder;
mod summary;
pub(crate) mod trial;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::loader::is_of_c_library;

use crate::differential::candidates::{self, Object, Place, PlaceArgs};
use crate::differential::verdicts;
use summary::Summary;
use trial::{Trial, has_capabilities};

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Every program, not a sample.
    #[arg(long)]
    all: bool,
    /// The number of programs to take from each place.
    #[arg(long, value_name = "N", default_value_t = 300)]
    sample: usize,
    /// Seed of the sample: the same seed, the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    places: PlaceArgs,
    /// The number of differences to print.
    #[arg(long, value_name = "K", default_value_t = 40)]
    show: usize,
    /// The number of simultaneous starts.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Compares; returns false if anything differs.
///
/// # Errors
/// Returns an error if a folder cannot be read or a recorder cannot be built.
pub fn run(options: &Options) -> Result<bool> {
    let scratch = tempfile::Builder::new().prefix("binding-differential").tempdir()?;
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755))?;
    let mut places = candidates::places(&options.places, false)?;
    let mut programs = Vec::new();
    let mut recorders: BTreeMap<String, PathBuf> = BTreeMap::new();
    for place in &mut places {
        let found = chosen(place, options)?;
        place.read_facts(&found);
        for program in &found {
            if !recorders.contains_key(&program.machine) {
                let built = recorder::build(&program.machine, scratch.path())?;
                recorders.insert(program.machine.clone(), built);
            }
        }
        programs.push(found);
    }
    let mut trials = Vec::new();
    for (place, found) in places.iter().zip(&programs) {
        for object in found {
            let recorder = recorders[&object.machine].as_path();
            trials.push(Trial { place, object, recorder, env: &[] });
        }
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let verdicts = pool.install(|| verdicts(&trials, Trial::run));
    let summary = Summary::of(&trials, &verdicts);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&summary.json(options.show))?);
    } else {
        print!("{}", summary.text(options.show));
    }
    Ok(summary.is_clean())
}

/// The programs of a place that the recorder can stop.
fn chosen(place: &Place, options: &Options) -> Result<Vec<Object>> {
    let (found, _) = place.find()?;
    let can_start = |object: &Object| {
        let path = place.path_here(&object.path);
        object.starts && !has_capabilities(&path) && !is_c_library(&path)
    };
    let found: Vec<Object> = found.into_iter().filter(can_start).collect();
    eprintln!("{}: {} programs to start", place.label, found.len());
    if options.all || place.whole {
        return Ok(found);
    }
    Ok(candidates::sample(found, options.sample, options.seed))
}

/// `libc.so.6` names an interpreter, but under any audit module the loader fails an assertion of
/// its own when it is started (`_dl_allocate_tls_init`).
fn is_c_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_of_c_library(name.as_encoded_bytes()))
}
