//! Work before a program is started: its pages are requested if they are not in memory, and a process
//! that learns from the start is begun.

use std::env;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use becalm_host::detached::detached;
use becalm_host::pages::ahead::{Limits, request};
use becalm_host::pages::fault_around::Listener;
use becalm_host::pages::resident::{self, Residency};

use crate::ahead::learn::{self, Beside};
use crate::ahead::limits;
use crate::ahead::record::{Header, Record, place};
use crate::index::variables::{NO_AHEAD, SWITCHES, has_switch};
use crate::trees;

/// If no other process can be made, the pages are requested in this one, for at most this time.
const PATIENCE: Duration = Duration::from_millis(200);

/// Reads ahead for a command, and learns from its start. Returns the switch of the audit module with
/// which the touched pages can be told from their neighbours, if the start is learned.
///
/// `found_cold` is true if a sample was not in memory; the kernel may have read it since.
///
/// Nothing is an error: the program is started all the same. Call this while the process has one
/// thread.
#[must_use]
pub fn begin(command: &Path, found_cold: bool) -> Option<String> {
    if has_switch(env::var_os(SWITCHES).as_deref(), NO_AHEAD) {
        return None;
    }
    let command = std::path::absolute(command).ok()?;
    let place = place(&command)?;
    // Another user may have put something there.
    let beside = known(place.open().ok()?, found_cold)?;
    let (listener, name) = Listener::new().ok()?;
    let pid = std::process::id();
    // This process becomes the program.
    let work =
        |[socket]: [OwnedFd; 1]| learn::learn(&place, &command, pid, &Listener(socket), beside);
    detached([&listener.0], work).ok()?;
    Some(format!("learn:{name}"))
}

/// Reads ahead by the record, if there is one and the start is cold. Returns the process that opens
/// files of the start; `None` if no start has to be learned.
fn known(file: Option<File>, found_cold: bool) -> Option<Beside> {
    // The first start is usually the one beside which the index is made.
    let known = file.and_then(|mut file| Some((Header::read(&mut file)?, file)));
    let Some((header, file)) = known else { return Some(Beside::Indexer) };
    let is_on_disk = |(path, page): &(String, u64)| resident::at(path, *page) == Residency::OnDisk;
    let is_cold = found_cold || header.samples.iter().any(is_on_disk);
    if is_cold {
        let file = OwnedFd::from(file);
        let work = |[file]: [OwnedFd; 1]| request_rest(file.into(), None);
        if detached([&file], work).is_err() {
            request_rest(file.into(), Some(Instant::now() + PATIENCE));
        }
    }
    let beside = if is_cold { Beside::Reader } else { Beside::Nobody };
    header.is_wanting().then_some(beside)
}

/// Reads ahead for the command that the process `pid` runs, and learns from its start: work beside a start that waits
/// for the disk, in a process that the audit module has started (`crates/audit/module/ahead.c`).
///
/// Nothing is an error: the program runs all the same.
pub fn attend(pid: u32, command: &Path) {
    let Ok(command) = std::path::absolute(command) else { return };
    let Some(place) = place(&command) else { return };
    // The file system of the current directory can be unmounted.
    let _ = env::set_current_dir("/");
    let Ok(file) = place.open() else { return };
    let beside = if file.is_some() { Beside::Reader } else { Beside::Nobody };
    let record = file.and_then(Record::read);
    if let Some(record) = &record {
        let _ = request(&record.wanted(), &limits());
    }
    if record.is_none_or(|record| record.header.is_wanting()) {
        // The module of this start has begun without it, so the record has neighbours of touched pages.
        if let Ok((listener, _)) = Listener::new() {
            learn::learn(&place, &command, pid, &listener, beside);
        }
    }
}

/// Returns the path of a command's record and the pages that are looked at before a start; `None` if the
/// record is not complete.
pub(crate) fn complete_record(command: &Path) -> Option<(PathBuf, Vec<(String, u64)>)> {
    let place = place(command)?;
    let header = Header::read(&mut place.open().ok()??)?;
    (!header.is_wanting()).then_some((place.0, header.samples))
}

/// Requests the pages of files that no other process reads for the start, which many starts share.
fn request_rest(file: File, until: Option<Instant>) {
    if let Some(mut record) = Record::read(file) {
        if let Some(others) = trees::looked_up(Path::new(&record.header.command)) {
            record.leave_out(&others);
        }
        let _ = request(&record.wanted(), &Limits { until, ..limits() });
    }
}
