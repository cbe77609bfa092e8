//! The file of ready pages: a header, tables, and the pages (`crates/lib/audit/pages.c`).

use std::fs;
use std::io::Read;
use std::path::Path;

use becalm_core::index::hash;
use becalm_host::pages::{self, PAGE};

use crate::pages::choose::Chosen;

const MAGIC: &[u8; 8] = b"becalmPG";
/// The version, and the seed of the check.
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 112;
/// Offset of the boot in the header.
const BOOT: usize = 72;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Facts about the start that a file of pages is for.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    pub(super) top: u64,
    pub(super) holes: u32,
    pub(super) members_check: u32,
    /// Checksum of the index.
    pub(super) index: u64,
}

/// The header of a file.
pub(super) struct Header([u8; HEADER]);

impl Header {
    /// Reads the header of a file; `None` if there is none of this version.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let mut header = [0; HEADER];
        pages::open(path).ok()?.read_exact(&mut header).ok()?;
        let version = u32::from_ne_bytes(*header.get(16..)?.first_chunk()?);
        (header.starts_with(MAGIC) && version == VERSION).then_some(Self(header))
    }

    /// True if the file was made since the machine was started.
    pub(super) fn is_of_boot(&self) -> bool {
        boot().is_some_and(|boot| self.0[BOOT..] == boot)
    }
}

/// Returns what tells this boot from others, padded.
fn boot() -> Option<[u8; HEADER - BOOT]> {
    let id = fs::read(BOOT_ID).ok()?;
    let mut boot = [0; HEADER - BOOT];
    boot[..36].copy_from_slice(id.get(..36)?);
    Some(boot)
}

/// Returns the file for a start with these objects, one for each member of the record.
pub(super) fn encode(start: &Start, objects: &[Chosen]) -> Option<Vec<u8>> {
    let mut tables: [Vec<u8>; 4] = Default::default();
    let mut content: Vec<u8> = Vec::new();
    let count = |of: &dyn Fn(&Chosen) -> usize| objects.iter().map(of).sum::<usize>();
    let (runs, words, relas) =
        (count(&|it| it.runs.len()), count(&|it| it.words.len()), count(&|it| it.relas.len()));
    let length = HEADER + objects.len() * 48 + (runs + words) * 16 + relas * 24;
    let mut next = (length as u64).div_ceil(PAGE);
    let (mut run, mut word, mut rela) = (0u32, 0u32, 0u32);
    for object in objects {
        let [of_objects, of_runs, of_words, of_relas] = &mut tables;
        of_objects.extend(object.address.to_ne_bytes());
        let counts = [object.runs.len(), object.words.len(), object.relas.len()];
        let counts = counts.map(|it| it as u32);
        let of_object = [run, counts[0], word, counts[1], rela, counts[2]];
        let rest = [object.lazy_words, object.dynamic, object.dynamic_words, 0];
        for number in of_object.into_iter().chain(rest) {
            of_objects.extend(number.to_ne_bytes());
        }
        (run, word, rela) = (run + counts[0], word + counts[1], rela + counts[2]);
        for (at, run) in &object.runs {
            let length = run.len() as u64 / PAGE;
            for number in [*at, length as u32, u32::try_from(next).ok()?, 0] {
                of_runs.extend(number.to_ne_bytes());
            }
            next += length;
            content.extend(run);
        }
        for fix in &object.words {
            of_words.extend(fix.at.to_ne_bytes());
            of_words.extend(fix.member.to_ne_bytes());
            of_words.extend(fix.distance.to_ne_bytes());
        }
        of_relas.extend(object.relas.concat());
    }
    let mut file = Vec::new();
    let size = next * PAGE;
    file.extend(VERSION.to_ne_bytes());
    file.extend(u32::try_from(length).ok()?.to_ne_bytes());
    file.extend(size.to_ne_bytes());
    file.extend(start.top.to_ne_bytes());
    let numbers = [objects.len(), runs, words, relas].map(|it| it as u32);
    for number in [start.holes, start.members_check].into_iter().chain(numbers) {
        file.extend(number.to_ne_bytes());
    }
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
