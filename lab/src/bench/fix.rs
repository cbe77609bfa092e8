//! `lab bench fix`: measures how fast notes are written into a store of many objects, in comparison
//! with patchelf, and how many bytes they add.
//!
//! The store is an imported one multiplied by copying ([`multiply`]). All variants of
//! becalm use one copy, which `becalm undo` restores. patchelf has no undo, so it comes last.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use becalm_host::{WalkOptions, find_objects};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::machine::write_raw;
use super::{listed, spread};
use crate::child;
use crate::import::manifest::Manifest;
use crate::patchelf::Patchelf;
use crate::words::hash;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct FixBench {
    /// The becalm to measure, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
    /// The imported store that is multiplied
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// Number of objects in the store that is written to
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Directory of the large store; by default that of the imported one. /dev/shm excludes the
    /// disk
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// File for the raw data, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// The variants in the order in which they run: names and command lines, in which words in capitals are replaced.
/// Each starts from the result of the previous one.
const VARIANTS: [(&str, &str); 10] = [
    ("fix", "BECALM fix --with note --store STORES STORE"),
    ("fix, nothing to do", "BECALM fix --with note --store STORES STORE"),
    ("undo", "BECALM undo STORE"),
    ("fix --no-sync", "BECALM fix --with note --no-sync --store STORES STORE"),
    ("undo --no-sync", "BECALM undo --no-sync STORE"),
    ("fix --in-place", "BECALM fix --with note --in-place --store STORES STORE"),
    ("undo --in-place", "BECALM undo --in-place STORE"),
    (
        "fix --in-place --no-sync",
        "BECALM fix --with note --in-place --no-sync --store STORES STORE",
    ),
    ("undo --in-place --no-sync", "BECALM undo --in-place --no-sync STORE"),
    // As many files per process as a command line allows.
    ("patchelf, one process", "xargs -n 100000 -a LIST PATCHELF --build-resolution-cache"),
];

/// Measurement of one variant in one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Taken {
    seconds: f64,
    /// Growth of all objects in bytes.
    grown: i64,
}

/// Measures, prints the table and writes the raw data.
pub(super) fn run(args: &FixBench) -> Result<()> {
    let imported = args.store.canonicalize().context("--store: run `lab import` first")?;
    let becalm = args.becalm.canonicalize().context("--becalm: run scripts/build first")?;
    let patchelf = Patchelf::find()?;
    let scratch = args.scratch.as_deref().or(imported.parent()).unwrap_or(Path::new("/"));
    let mut runs: Vec<Vec<Taken>> = vec![Vec::new(); VARIANTS.len()];
    let (mut objects, mut size) = (0, 0);
    for _ in 0..args.rounds {
        let dir = tempfile::tempdir_in(scratch)?;
        let store = dir.path();
        multiply(&imported, store, args.objects)?;
        let found = find_objects(&[store.to_owned()], WalkOptions::default()).objects;
        let files: Vec<PathBuf> = found.into_iter().map(|object| object.path).collect();
        let list = listed(&files)?;
        let stores = [&imported, store].map(|path| path.to_string_lossy()).join(":");
        let word = |word| match word {
            "BECALM" => becalm.as_os_str(),
            "PATCHELF" => patchelf.program.as_os_str(),
            "STORE" => store.as_os_str(),
            "STORES" => stores.as_ref(),
            "LIST" => list.path().as_os_str(),
            word => OsStr::new(word),
        };
        (objects, size) = (files.len(), bytes(&files)?);
        for ((name, line), runs) in VARIANTS.iter().zip(&mut runs) {
            let line: Vec<&OsStr> = line.split(' ').map(word).collect();
            runs.push(take(&line, &files).context(*name)?);
        }
    }
    println!("{objects} objects, {size} bytes\n");
    print(&runs, objects);
    let rows = VARIANTS.iter().zip(&runs);
    let rows: Vec<_> =
        rows.map(|((name, _), runs)| json!({ "name": name, "runs": runs })).collect();
    let patchelf = &patchelf.version;
    let record = json!({ "patchelf": patchelf, "objects": objects, "bytes": size, "rows": rows });
    write_raw(args.raw.as_deref(), scratch, record)
}

/// Runs a command line on a store of these files.
fn take(line: &[&OsStr], files: &[PathBuf]) -> Result<Taken> {
    // Dirty pages of the previous variant must not count for this one.
    child::succeed(&mut child::command("sync"))?;
    let before = bytes(files)?;
    let mut command = child::command(line[0]);
    let began = Instant::now();
    child::whole(command.args(&line[1..]))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Taken { seconds, grown: bytes(files)? as i64 - before as i64 })
}

fn bytes(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| Ok(fs::metadata(file)?.size())).sum()
}

/// Fills the empty folder `out` with packages of the imported `store`, repeated under other hashes, until it has `to`
/// objects. The last round stops at the first package that reaches this number. The run paths stay those of the
/// imported store, so every object has its closure there.
///
/// # Errors
/// Returns an error if `store` is not an imported store, or an error of the file system.
fn multiply(store: &Path, out: &Path, to: usize) -> Result<()> {
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

/// Prints the table of the run.
fn print(runs: &[Vec<Taken>], objects: usize) {
    println!("| way | files a second | times patchelf | bytes added a file |");
    println!("| --- | ---: | ---: | ---: |");
    for ((name, _), own) in VARIANTS.iter().zip(runs) {
        let grown = own.first().map_or(0, |run| run.grown / objects.max(1) as i64);
        let speed = spread(own.iter().map(|run| objects as f64 / run.seconds));
        // By the speed of patchelf in one process, in the same round.
        let pairs = own.iter().zip(&runs[VARIANTS.len() - 1]);
        let ratio = spread(pairs.map(|(run, other)| other.seconds / run.seconds));
        println!("| {name} | {speed} | {ratio} | {grown} |");
    }
}
