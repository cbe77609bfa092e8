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
pub(crate) mod trial;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::loader::is_of_c_library;

use crate::differential::candidates::{self, Object, Place, Selection};
use crate::differential::verdicts;
use crate::tally::Tally;
use trial::{Trial, has_capabilities};

/// The counts of a place and group, and of them those of [`compare`]: slots that got the address of a
/// symbol, or its absence; those that got the result of a resolver, equal ones for equal resolvers; TLS
/// slots, with one module number and one distance for each object; copied data; relative slots; TLS
/// descriptors and slots that stay unchanged, which are not compared; and lookups that
/// `LD_DEBUG=bindings` names.
const COLUMNS: [&str; 10] = [
    "programs",
    "symbolic",
    "resolved",
    "tls",
    "copies",
    "relative",
    "passed",
    "differ",
    "fail alike",
    "not run",
];

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
}

/// Compares; returns false if anything differs.
///
/// # Errors
/// Returns an error if a folder cannot be read or a recorder cannot be built.
pub fn run(options: &Options) -> Result<bool> {
    let selection = &options.selection;
    let scratch = tempfile::Builder::new().prefix("binding-differential").tempdir()?;
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755))?;
    let mut places = candidates::places(selection, false)?;
    let mut programs = Vec::new();
    let mut recorders: BTreeMap<String, PathBuf> = BTreeMap::new();
    for place in &mut places {
        let found = selection.of(place, recordable(place));
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
    let (mut tally, mut not_run) = (Tally::default(), BTreeMap::new());
    let one = |trial: &Trial| trial.verdict(&trial.predict()?);
    for (trial, verdict) in trials.iter().zip(verdicts(&trials, one)) {
        let (place, object) = (&trial.place.label, trial.object);
        let libc = verdict.as_ref().map_or("unknown", |verdict| &verdict.libc);
        let counts = tally.group(place, format!("{} {libc}", object.machine));
        counts.add("programs", 1);
        match verdict {
            Ok(verdict) => {
                counts.merge(&verdict.compared);
                counts.add("fail alike", usize::from(verdict.fails));
                counts.add("differ", usize::from(!verdict.differences.is_empty()));
                let name = format!("{place}: {}", object.path.display());
                verdict.differences.into_iter().for_each(|what| tally.differs(name.clone(), what));
            }
            Err(error) => {
                counts.add("not run", 1);
                *not_run.entry(format!("{error:#}")).or_insert(0_usize) += 1;
            }
        }
    }
    print!("{}", tally.text((42, 11), &COLUMNS));
    for (reason, count) in &not_run {
        println!("not run: {count} programs: {reason}");
    }
    println!("{} differences", tally.differences());
    Ok(tally.differences() == 0 && not_run.is_empty())
}

/// Returns the programs of a place that the recorder can stop.
fn recordable(place: &Place) -> Vec<Object> {
    let can_start = |object: &Object| {
        let path = place.path_here(&object.path);
        object.starts && !has_capabilities(&path) && !is_c_library(&path)
    };
    let found: Vec<Object> = place.find().0.into_iter().filter(can_start).collect();
    eprintln!("{}: {} programs to start", place.label, found.len());
    found
}

/// `libc.so.6` names an interpreter, but under any audit module the loader fails an assertion of
/// its own when it is started (`_dl_allocate_tls_init`).
fn is_c_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_of_c_library(name.as_encoded_bytes()))
}
