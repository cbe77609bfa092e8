//! `lab scale`: growth of an index with its store, up to the size of all of nixpkgs.
//!
//! The store is a file system that is computed, not stored ([`store`]): 100,000 packages with ten
//! objects each take no memory of their own. Its objects are resolved by the same code as those of
//! `becalm index`, and the table is encoded. Each size runs in a process of its own, so that each
//! has its own peak of memory. The audit module's reader of tables is timed on each table
//! (`crates/audit/module/tests/lookup.c`).
//!
//! `--on-disk` makes a store of real files instead, and times `becalm index` and `becalm index
//! --update` on it ([`on_disk`]). `--shape` chooses the depth of their closures ([`deep`]).

mod deep;
mod on_disk;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becalm_core::elf::{Class, Endian};
use becalm_core::facts::{GlibcVersion, Libc, LoaderFacts, Readers};
use becalm_core::fs::Errno;
use becalm_core::index::build::{Fingerprints, Gatherer, ResolvedObject, Resolver, Sources};
use becalm_core::index::{Fingerprint, Folder, Index, Target, Time, encode};
use becalm_core::search::Stores;
use bstr::{BStr, BString};
use clap::Args;
use rayon::prelude::*;

use crate::bench::high_water;
use crate::child;
use store::{OBJECTS, STORE, ScaleFs};

/// Objects that are resolved with one cached view of the directories, as in `becalm index`.
const CHUNK: usize = 256;

/// The sizes of the store.
#[derive(Args)]
pub(crate) struct Scale {
    /// Packages of the stores, each with ten objects
    #[arg(default_values_t = [1000, 10_000, 100_000])]
    packages: Vec<usize>,
    /// Make the stores of real files below this folder instead, and index and update them
    #[arg(long, value_name = "FOLDER", requires = "becalm")]
    on_disk: Option<PathBuf>,
    /// The packages that a package needs
    #[arg(long, value_enum, default_value = "flat", requires = "on_disk")]
    shape: deep::Shape,
    /// The becalm that indexes them, as scripts/build prints it
    #[arg(long, value_name = "FILE", requires = "on_disk")]
    becalm: Option<PathBuf>,
    /// Measure one store in this process, and print its row
    #[arg(long, hide = true)]
    one: bool,
}

/// The figures of one store.
#[derive(Debug)]
struct Measured {
    objects: usize,
    answers: usize,
    resolve: Duration,
    encode: Duration,
    /// Peak of resident memory in bytes.
    peak: u64,
    /// Bytes of the table.
    table: usize,
    /// Bytes of the table for each answer.
    bytes_an_answer: f64,
    /// Nanoseconds of the module's reader for one lookup, at a random place of the table.
    lookup: u64,
}

/// Number of lookups that are timed on each table.
const LOOKUPS: &str = "1000000";

/// Measures each size and prints a table.
pub(crate) fn run(scale: &Scale) -> Result<()> {
    if let (Some(folder), Some(becalm)) = (&scale.on_disk, &scale.becalm) {
        return on_disk::run(&scale.packages, scale.shape, folder, becalm);
    }
    if scale.one {
        let [packages] = scale.packages[..] else { bail!("--one: one size") };
        let m = measure(packages)?;
        println!(
            "| {} | {} | {} | {:.1} | {:.1} | {} | {:.1} | {:.1} | {} |",
            packages,
            m.objects,
            m.answers,
            m.resolve.as_secs_f64(),
            m.encode.as_secs_f64(),
            m.peak / 1_000_000,
            m.table as f64 / 1e6,
            m.bytes_an_answer,
            m.lookup
        );
        return Ok(());
    }
    println!(
        "| packages | objects | answers | resolve, s | encode, s | peak, MB | table, MB | bytes an answer | lookup, ns |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for packages in &scale.packages {
        let mut own = Command::new(std::env::current_exe()?);
        print!("{}", child::whole(own.args(["scale", "--one", &packages.to_string()]))?);
    }
    println!("\n{} CPUs; computed files: no time of a disk is in it", rayon::current_num_threads());
    Ok(())
}

fn measure(packages: usize) -> Result<Measured> {
    let began = Instant::now();
    let index = index(&ScaleFs::new(packages));
    let resolve = began.elapsed();
    let began = Instant::now();
    let target =
        Target { machine: object::elf::EM_X86_64.0, class: Class::Elf64, endian: Endian::Little };
    let table = encode(&index, target)?;
    let encode = began.elapsed();
    let answers = index.objects.iter().map(|object| object.edges.len()).sum();
    let of = |at: usize| index.objects.iter().map(|o| usize::from(o.deferred[at])).sum::<usize>();
    let reasons: Vec<usize> = (0..8).map(of).collect();
    // Lookups that are deferred to the loader; the computed store has none.
    if answers == 0 || reasons.iter().any(|&count| count > 0) {
        bail!("{answers} answers, without one {reasons:?}: the computed store is wrong");
    }
    let peak = high_water(&fs::read_to_string("/proc/self/status")?);
    let peak = peak.context("no VmHWM in /proc/self/status")?;
    Ok(Measured {
        objects: index.objects.len(),
        answers,
        resolve,
        encode,
        peak,
        table: table.len(),
        bytes_an_answer: table.len() as f64 / answers as f64,
        lookup: lookup(&table)?,
    })
}

/// Times the module's reader on a table, compiled as an ordinary program.
fn lookup(table: &[u8]) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let (reader, file) = (folder.path().join("lookup"), folder.path().join("table"));
    fs::write(&file, table)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/audit/module/tests/lookup.c");
    let cc = ["-std=c11", "-O2", "-o"];
    child::whole(Command::new("cc").args(cc).args([&reader, &source]))?;
    let said = child::whole(Command::new(&reader).arg(&file).args(["time", LOOKUPS]))?;
    let number = said.split(' ').next().and_then(|number| number.parse().ok());
    number.with_context(|| format!("{}: {said}", source.display()))
}

/// Resolves every object of the store and gathers the answers.
fn index(fs: &ScaleFs) -> Index {
    let facts = facts();
    let ident = fs.view(0).ident;
    let stores = Stores::of([STORE]);
    let numbers: Vec<usize> = (0..fs.objects()).collect();
    let resolve = |numbers: &[usize]| -> Vec<ResolvedObject> {
        let resolver = Resolver::new(Sources {
            fs,
            fingerprints: &Settled,
            facts: &facts,
            loader: "/lib64/ld-linux-x86-64.so.2".into(),
            ident: &ident,
            stores: &stores,
        });
        let one = |&number: &usize| {
            let path = fs.path(number);
            let mut resolved = resolver.object(path.as_ref(), &fs.view(number), true)?;
            resolved.object.seen = SETTLED.digest();
            Some(resolved)
        };
        numbers.iter().filter_map(one).collect()
    };
    let chunks: Vec<Vec<ResolvedObject>> = numbers.par_chunks(CHUNK).map(resolve).collect();
    let mut gatherer = Gatherer::default();
    gatherer.root(STORE.into(), SETTLED);
    gatherer.folder(&STORE.into(), SETTLED.digest().max(Folder::ABSENT + 1), true);
    for resolved in chunks.into_iter().flatten() {
        gatherer.object(resolved);
    }
    gatherer.finish(1, "/lib64/ld-linux-x86-64.so.2".into(), &facts)
}

fn facts() -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor: 40 }),
        system_dirs: vec!["/nix/store/none/lib/".into()],
        cache_path: None,
        lib: "lib64".into(),
        platform: Some("x86_64".into()),
        hwcaps: ["x86-64-v3", "x86-64-v2"].map(BString::from).to_vec(),
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 0,
        platform_bit: None,
        reads: Readers::default(),
        tunables: Default::default(),
    }
}

/// Files that were made long ago and that everybody may read.
struct Settled;

const SETTLED: Fingerprint = Fingerprint {
    volume: 1,
    ino: 2,
    size: OBJECTS as u64,
    mtime: Time { sec: 1, nsec: 1 },
    ctime: Time { sec: 1, nsec: 1 },
};

impl Fingerprints for Settled {
    fn fingerprint(&self, _: &BStr) -> Result<Fingerprint, Errno> {
        Ok(SETTLED)
    }

    fn listing(&self, _: &BStr) -> u64 {
        1
    }

    fn is_for_all(&self, _: &BStr) -> bool {
        true
    }

    fn now(&self) -> Time {
        Time { sec: 1_000_000, nsec: 0 }
    }
}

#[cfg(test)]
mod tests {
    use becalm_core::fs::FileSystem;

    use super::*;

    #[test]
    fn a_small_store_is_answered_wholly_and_a_larger_one_costs_no_more_an_answer() {
        let [small, large] = [50, 500].map(|packages| measure(packages).expect("measured"));
        // An object without an answer is an error of `measure`.
        assert!(small.objects == 500 && small.answers > small.objects);
        assert!(index(&ScaleFs::new(50)).objects.iter().any(|object| object.is_program));
        assert!(large.bytes_an_answer < small.bytes_an_answer * 1.1, "{small:?} {large:?}");
    }

    #[test]
    fn the_answers_lead_to_the_files_that_are_there() {
        let fs = ScaleFs::new(40);
        for object in &index(&fs).objects {
            for edge in &object.edges {
                let opened = fs.open(edge.path.as_ref()).expect("the answer opens");
                assert!(opened.object.is_ok());
            }
        }
    }
}
