//! `lab bench fix`: measures how fast notes are written into a store of many objects, in comparison
//! with patchelf, and how many bytes they add.
//!
//! The store is an imported one multiplied by copying ([`multiply`]). All variants of
//! becalm use one copy, which `becalm undo` restores. patchelf has no undo, so it comes last.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::machine::write_raw;
use super::{listed, multiply, spread};
use crate::child;
use crate::patchelf::Patchelf;

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

/// A variant of writing or undoing: its name, and the words of becalm's command line before the store;
/// for patchelf those of xargs before patchelf.
type Variant = (&'static str, &'static str);

/// The variants in the order in which they run. Each starts from the result of the previous one.
const VARIANTS: [Variant; 10] = [
    ("fix", "fix --with note"),
    ("fix, nothing to do", "fix --with note"),
    ("undo", "undo"),
    ("fix --no-sync", "fix --with note --no-sync"),
    ("undo --no-sync", "undo --no-sync"),
    ("fix --in-place", "fix --with note --in-place"),
    ("undo --in-place", "undo --in-place"),
    ("fix --in-place --no-sync", "fix --with note --in-place --no-sync"),
    ("undo --in-place --no-sync", "undo --in-place --no-sync"),
    // As many files per process as a command line allows.
    ("patchelf, one process", "-n 100000"),
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
    let bench = Bench::new(args)?;
    let mut runs: Vec<Vec<Taken>> = vec![Vec::new(); VARIANTS.len()];
    let (mut objects, mut bytes) = (0, 0);
    for _ in 0..args.rounds {
        let store = bench.store()?;
        (objects, bytes) = (store.files.len(), store.bytes()?);
        for (variant, runs) in VARIANTS.iter().zip(&mut runs) {
            runs.push(bench.take(*variant, &store)?);
        }
    }
    println!("{objects} objects, {bytes} bytes\n");
    print(&runs, objects);
    let rows = VARIANTS.iter().zip(&runs);
    let rows: Vec<_> =
        rows.map(|((name, _), runs)| json!({ "name": name, "runs": runs })).collect();
    let patchelf = &bench.patchelf.version;
    let record = json!({ "patchelf": patchelf, "objects": objects, "bytes": bytes, "rows": rows });
    write_raw(args.raw.as_deref(), &bench.scratch, record)
}

/// Parameters of every run.
struct Bench {
    becalm: PathBuf,
    patchelf: Patchelf,
    imported: PathBuf,
    scratch: PathBuf,
    objects: usize,
}

/// A large store, which is removed when it is dropped.
struct Store {
    dir: tempfile::TempDir,
    /// Its objects.
    files: Vec<PathBuf>,
    /// The same as a file, one path per line.
    list: tempfile::NamedTempFile,
}

impl Bench {
    fn new(args: &FixBench) -> Result<Self> {
        let imported = args.store.canonicalize().context("--store: run `lab import` first")?;
        let beside = || imported.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self {
            becalm: args.becalm.canonicalize().context("--becalm: run scripts/build first")?,
            patchelf: Patchelf::find()?,
            scratch: args.scratch.clone().unwrap_or_else(beside),
            imported,
            objects: args.objects,
        })
    }

    fn store(&self) -> Result<Store> {
        let dir = tempfile::tempdir_in(&self.scratch)?;
        multiply::run(&self.imported, dir.path(), self.objects)?;
        let found = becalm_host::find_objects(
            &[dir.path().to_owned()],
            becalm_host::WalkOptions::default(),
        );
        let files: Vec<PathBuf> = found.objects.into_iter().map(|object| object.path).collect();
        Ok(Store { dir, list: listed(&files)?, files })
    }

    fn take(&self, (name, words): Variant, store: &Store) -> Result<Taken> {
        // Dirty pages of the previous variant must not count for this one.
        child::succeed(&mut child::command("sync"))?;
        let before = store.bytes()?;
        let is_patchelf = words.starts_with('-');
        let mut command =
            child::command(if is_patchelf { Path::new("xargs") } else { &self.becalm });
        command.args(words.split(' '));
        if is_patchelf {
            command.arg("-a").arg(store.list.path());
            command.arg(&self.patchelf.program).arg("--build-resolution-cache");
        } else {
            if words.starts_with("fix") {
                let prefixes = [&self.imported, store.dir.path()].map(|p| p.to_string_lossy());
                command.arg("--store").arg(prefixes.join(":"));
            }
            command.arg(store.dir.path());
        }
        let began = Instant::now();
        child::whole(&mut command).context(name)?;
        let seconds = began.elapsed().as_secs_f64();
        let grown = store.bytes()? as i64 - before as i64;
        Ok(Taken { seconds, grown })
    }
}

impl Store {
    fn bytes(&self) -> Result<u64> {
        self.files.iter().map(|file| Ok(fs::metadata(file)?.size())).sum()
    }
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
