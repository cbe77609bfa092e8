//! Reading ahead: the pages that starts of a program used are recorded, and requested at once before
//! the next start if they are not in memory ([`mod@begin`]), or beside one that waits for them
//! ([`mod@attend`]).
//!
//! [`record`] is the file, [`learn`] the process that makes it while the program runs, [`mod@opened`] adds
//! files that a traced program has opened, [`warm`] reads ahead without starting a program, and
//! [`state`] lists the records.

pub mod attend;
pub mod begin;
pub mod learn;
pub mod opened;
pub mod record;
pub mod state;
#[cfg(test)]
mod tests;
pub mod warm;

use std::fs;

use becalm_host::pages::ahead::{Limits, Wanted};

use crate::ahead::record::Record;

/// Maximum number of bytes that are read ahead for a start, whatever the memory.
const MOST: u64 = 512 << 20;

/// Returns the pages of a record to be read, and the limit of their bytes: a quarter of the memory
/// that is available without swapping.
fn wanted(record: &Record) -> (Vec<Wanted>, Limits) {
    let bytes = available().map_or(MOST / 8, |available| (available / 4).min(MOST));
    (record.wanted(), Limits { bytes, wait: false, until: None })
}

/// Returns the bytes of memory that are available without swapping (proc_meminfo(5)).
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
