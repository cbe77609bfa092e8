//! Compares the model with the real loader in every folder of `tests/cases/`.

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use xtask::case::Case;
use xtask::trace_differential::run::reachable;

fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases");
    let entries = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Runs one case. Returns its errors.
fn run(folder: &Path, predictor: &Path) -> Result<(), String> {
    let case = Case::read(folder).map_err(|error| format!("{error:#}"))?;
    if let Some(lack) = case.lacks() {
        println!("{}: skipped: {lack}", case.name());
        let required = std::env::var_os("BECALM_REQUIRE_ALL").is_some();
        return if required { Err(format!("{}: {lack}", case.name())) } else { Ok(()) };
    }
    let report = case.run(predictor).map_err(|error| format!("{}: {error:#}", case.name()))?;
    let verdict = if report.failures.is_empty() { "same" } else { "DIFFERENT" };
    println!("{}: {verdict}", report.name);
    if report.failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{}\n{}", report.name, report.failures.join("\n")))
    }
}

#[test]
fn the_model_makes_the_probes_the_loader_makes() {
    let folders = folders();
    assert!(folders.len() >= 100, "only {} cases are there", folders.len());
    // Made once, before anything forks: a file that is open for writing cannot be executed.
    let (_folder, path) = reachable(Path::new(env!("CARGO_BIN_EXE_xtask"))).unwrap();
    let wrong: Vec<String> =
        folders.par_iter().filter_map(|folder| run(folder, &path).err()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} cases differ:\n\n{}",
        wrong.len(),
        folders.len(),
        wrong.join("\n\n")
    );
}
