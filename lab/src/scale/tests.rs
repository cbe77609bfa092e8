//! Tests the index of a store of any size, which is a file system that is computed, not stored. Its
//! objects are resolved by the same code as those of `becalm index`, and the table is encoded and read
//! by the audit module's reader (`crates/audit/module/tests/lookup.c`).

mod store;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use becalm_core::elf::{Class, Endian};
use becalm_core::facts::{GlibcVersion, Libc, LoaderFacts, Readers};
use becalm_core::fs::{Errno, FileSystem};
use becalm_core::index::build::{Fingerprints, Resolver, Sources};
use becalm_core::index::{Condition, Fingerprint, Folder, Index, Object, Target, Time, encode};
use becalm_core::search::Stores;
use bstr::{BStr, BString};
use rayon::prelude::*;

use self::store::{OBJECTS, STORE, ScaleFs};
use crate::child;

/// Objects that are resolved with one cached view of the directories, as in `becalm index`.
const CHUNK: usize = 256;

/// The figures of one store.
#[derive(Debug)]
struct Measured {
    objects: usize,
    answers: usize,
    /// Bytes of the table for each answer.
    bytes_an_answer: f64,
}

/// Number of lookups in each table.
const LOOKUPS: &str = "1000000";

fn measure(packages: usize) -> Result<Measured> {
    let index = index(&ScaleFs::new(packages));
    let target =
        Target { machine: object::elf::EM_X86_64.0, class: Class::Elf64, endian: Endian::Little };
    let table = encode(&index, target)?;
    look_up(&table)?;
    let answers = index.objects.iter().map(|object| object.edges.len()).sum();
    let of = |at: usize| index.objects.iter().map(|o| usize::from(o.deferred[at])).sum::<usize>();
    let reasons: Vec<usize> = (0..8).map(of).collect();
    // Lookups that are deferred to the loader; the computed store has none.
    if answers == 0 || reasons.iter().any(|&count| count > 0) {
        bail!("{answers} answers, without one {reasons:?}: the computed store is wrong");
    }
    Ok(Measured {
        objects: index.objects.len(),
        answers,
        bytes_an_answer: table.len() as f64 / answers as f64,
    })
}

/// Looks up at random places of a table by the module's reader, compiled as an ordinary program.
fn look_up(table: &[u8]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (reader, file) = (folder.path().join("lookup"), folder.path().join("table"));
    fs::write(&file, table)?;
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/audit/module/tests/lookup.c");
    let cc = ["-std=c11", "-O2", "-o"];
    child::whole(Command::new("cc").args(cc).args([&reader, &source]))?;
    let said = child::whole(Command::new(&reader).arg(&file).args(["time", LOOKUPS]))?;
    let number = said.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    number.with_context(|| format!("{}: {said}", source.display())).map(drop)
}

/// Resolves every object of the store and gathers the answers.
fn index(fs: &ScaleFs) -> Index {
    let facts = facts();
    let ident = fs.view(0).ident;
    let stores = Stores::of([STORE]);
    let numbers: Vec<usize> = (0..fs.objects()).collect();
    let resolve = |numbers: &[usize]| -> Vec<Object> {
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
            let object = resolver.object(path.as_ref(), &fs.view(number), true)?;
            Some(Object { seen: SETTLED.digest(), ..object })
        };
        numbers.iter().filter_map(one).collect()
    };
    let chunks: Vec<Vec<Object>> = numbers.par_chunks(CHUNK).map(resolve).collect();
    let objects: Vec<Object> = chunks.into_iter().flatten().collect();
    let searched: BTreeSet<_> = objects.iter().flat_map(|object| &object.searched).collect();
    let folder = |path: &Arc<BString>| Folder {
        path: BString::clone(path),
        digest: Folder::UNKNOWN,
        walked: false,
    };
    let mut folders: Vec<Folder> = searched.into_iter().map(folder).collect();
    let digest = SETTLED.digest().max(Folder::ABSENT + 1);
    folders.push(Folder { path: STORE.into(), digest, walked: true });
    let roots = vec![Arc::new(Condition::Directory(STORE.into(), SETTLED))];
    let mut index = Index { objects, folders, roots, ..Index::default() };
    index.map_conditions(Condition::clone);
    index
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
        no_exec_stack: false,
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
