//! Work before a program is started: its pages are requested if they are not in memory, and a process
//! that learns from the start is begun.

use std::env;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use becalm_host::detached::{Detached, Priority, detached};
use becalm_host::pages::ahead::{Limits, request};
use becalm_host::pages::fault_around::Listener;
use becalm_host::pages::open;
use becalm_host::pages::resident::{self, Residency};

use crate::ahead::learn::{self, Beside};
use crate::ahead::limits;
use crate::ahead::record::{Header, Place, Record, RecordError};
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
    let place = Place::of(&command).ok()?;
    match known(&place, found_cold) {
        Ok(beside) => learn_from(&place, command, beside?),
        Err(RecordError::Form) => learn_from(&place, command, Beside::Indexer),
        // Another user may have put something there.
        Err(_) => None,
    }
}

/// Reads ahead by the record, if there is one and the start is cold. Returns the process that opens
/// files of the start; `None` if no start has to be learned.
fn known(place: &Place, found_cold: bool) -> Result<Option<Beside>, RecordError> {
    // The first start is usually the one beside which the index is made.
    let Some(mut file) = place.open()? else { return Ok(Some(Beside::Indexer)) };
    let header = Header::read(&mut file)?;
    let is_cold = found_cold || is_cold(&header);
    if is_cold {
        let again = file.try_clone().map_err(|_| RecordError::Form)?;
        let work = |file: OwnedFd| request_rest(file.into(), None);
        if let Ok(Detached::WouldBeAChild) | Err(_) = detached(file.into(), Priority::Normal, work)
        {
            request_rest(again, Some(Instant::now() + PATIENCE));
        }
    }
    let beside = if is_cold { Beside::Reader } else { Beside::Nobody };
    Ok(header.is_wanting().then_some(beside))
}

/// Returns the path of a command's record and the pages that are looked at before a start; `None` if the
/// record is not complete.
pub(crate) fn complete_record(command: &Path) -> Option<(PathBuf, Vec<(String, u64)>)> {
    let place = Place::of(command).ok()?;
    let header = Header::read(&mut place.open().ok()??).ok()?;
    (!header.is_wanting()).then(|| (place.path().to_owned(), header.samples))
}

pub(super) fn request_recorded(file: File) {
    if let Ok(record) = Record::read(file) {
        let _ = request(&record.wanted(), &limits());
    }
}

/// Requests the pages of files that no other process reads for the start, which many starts share.
fn request_rest(file: File, until: Option<Instant>) {
    if let Ok(mut record) = Record::read(file) {
        if let Some(others) = trees::looked_up(Path::new(&record.header.command)) {
            record.leave_out(&others);
        }
        let _ = request(&record.wanted(), &Limits { until, ..limits() });
    }
}

/// Returns true if a sample is not in memory.
fn is_cold(header: &Header) -> bool {
    header.samples.iter().any(|(path, page)| {
        open(Path::new(path)).is_ok_and(|file| resident::of(&file, *page) == Residency::OnDisk)
    })
}

/// Begins a process that learns from the start of this process's next program.
fn learn_from(place: &Place, command: PathBuf, beside: Beside) -> Option<String> {
    let (listener, name) = Listener::new().ok()?;
    let pid = std::process::id();
    let work = |socket: OwnedFd| learn::learn(place, &command, pid, &socket.into(), beside);
    match detached(listener.into(), Priority::Normal, work) {
        Ok(Detached::Yes) => Some(format!("learn:{name}")),
        Ok(Detached::WouldBeAChild) | Err(_) => None,
    }
}
