//! The file of ready pages: a header, tables, and the pages (`crates/audit/module/pages.c`).

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becalm_core::index::hash;
use becalm_host::pages::steered::RELA;
use becalm_host::pages::{self, PAGE};
use becalm_host::trust;

use crate::pages::choose::Chosen;

const MAGIC: &[u8; 8] = b"becalmPG";
/// The version, and the seed of the check.
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 112;
/// Offset of the boot in the header.
const BOOT: usize = 72;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Maximum number of bytes of tables that are read.
const MOST_OF_TABLES: usize = 64 << 20;

/// Facts about the start that a file of pages is for.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    pub(super) top: u64,
    pub(super) holes: u32,
    pub(super) members_check: u32,
    /// Checksum of the index.
    pub(super) index: u64,
}

/// True if a start uses the file: it is of this boot and user, and has its length. With `tables`, its tables
/// are compared with their check as well, as the module does.
pub(super) fn is_usable(path: &Path, tables: bool) -> bool {
    let read = || {
        let mut file = pages::open(path).ok()?;
        let facts = file.metadata().ok()?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        let word = |at: usize| Some(u32::from_ne_bytes(*header[at..].first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*header[at..].first_chunk()?));
        let is_own = facts.uid() == trust::user() && facts.mode() & 0o077 == 0;
        let is_of_start = header.starts_with(MAGIC) && word(16)? == VERSION;
        let is_complete = long(24)? == facts.len() && header[BOOT..] == boot()?;
        (is_own && is_of_start && is_complete).then_some(())?;
        if tables {
            let length = word(20)? as usize;
            let mut rest = vec![0; length.min(MOST_OF_TABLES).checked_sub(HEADER)?];
            file.read_exact(&mut rest).ok()?;
            let checked = [&header[16..], &rest].concat();
            (hash::bytes(VERSION.into(), &checked) == long(8)?).then_some(())?;
        }
        Some(())
    };
    read().is_some()
}

/// Returns what tells this boot from others, and the number of pages of the loader cache, which the loader
/// maps among the libraries.
fn boot() -> Option<[u8; HEADER - BOOT]> {
    let id = fs::read(BOOT_ID).ok()?;
    let pages = fs::metadata(LOADER_CACHE).map_or(0, |it| it.len().div_ceil(PAGE)) as u32;
    let mut boot = [0; HEADER - BOOT];
    boot[..36].copy_from_slice(id.get(..36)?);
    boot[36..].copy_from_slice(&pages.to_ne_bytes());
    Some(boot)
}

/// Returns the file for a start with these objects, one for each member of the record.
pub(super) fn encode(start: &Start, objects: &[Chosen]) -> Option<Vec<u8>> {
    let mut tables: [Vec<u8>; 4] = Default::default();
    let mut content: Vec<u8> = Vec::new();
    let count = |of: fn(&Chosen) -> usize| objects.iter().map(of).sum::<usize>();
    let (runs, words, relas) =
        (count(|it| it.runs.len()), count(|it| it.words.len()), count(|it| it.relas.len()));
    let length = HEADER + objects.len() * 48 + (runs + words) * 16 + relas * 24;
    let mut next = (length as u64).div_ceil(PAGE);
    for object in objects {
        let [of_objects, of_runs, of_words, of_relas] = &mut tables;
        of_objects.extend(object.address.to_ne_bytes());
        let runs = [of_runs.len() / 16, object.runs.len()];
        let words = [of_words.len() / 16, object.words.len()];
        let relas = [of_relas.len() / RELA, object.relas.len()];
        for [first, count] in [runs, words, relas] {
            add(of_objects, [first as u32, count as u32]);
        }
        add(of_objects, [object.lazy_words, object.dynamic, object.dynamic_words, 0]);
        for (at, run) in &object.runs {
            let length = run.len() as u64 / PAGE;
            add(of_runs, [*at, length as u32, u32::try_from(next).ok()?, 0]);
            next += length;
            content.extend(run);
        }
        for fix in &object.words {
            add(of_words, [fix.at, fix.member]);
            of_words.extend(fix.distance.to_ne_bytes());
        }
        of_relas.extend(object.relas.concat());
    }
    let mut file = Vec::new();
    add(&mut file, [VERSION, u32::try_from(length).ok()?]);
    file.extend((next * PAGE).to_ne_bytes());
    file.extend(start.top.to_ne_bytes());
    add(&mut file, [start.holes, start.members_check]);
    add(&mut file, [objects.len(), runs, words, relas].map(|it| it as u32));
    file.extend(start.index.to_ne_bytes());
    file.extend(boot()?);
    file.extend(tables.concat());
    let check = hash::bytes(VERSION.into(), &file);
    let mut file = [&MAGIC[..], &check.to_ne_bytes(), &file].concat();
    debug_assert_eq!(file.len(), length, "the header and tables have their sizes");
    file.resize((length as u64).div_ceil(PAGE) as usize * PAGE as usize, 0);
    file.extend(content);
    Some(file)
}

fn add<const N: usize>(to: &mut Vec<u8>, numbers: [u32; N]) {
    to.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
}
