//! Work beside a start that waits for the disk, in a process that the audit module has started
//! (`crates/audit/module/ahead.c`): the recorded pages are requested, or the start is recorded.

use std::env;
use std::path::Path;

use becalm_host::pages::fault_around::Listener;

use crate::ahead::begin::request_recorded;
use crate::ahead::learn::{self, Beside};
use crate::ahead::record::{Header, Place, RecordError};

/// Reads ahead for the command that the process `pid` runs, and learns from its start.
///
/// Nothing is an error: the program runs all the same.
pub fn attend(pid: u32, command: &Path) {
    let Ok(command) = std::path::absolute(command) else { return };
    let Ok(place) = Place::of(&command) else { return };
    // The file system of the current directory can be unmounted.
    let _ = env::set_current_dir("/");
    let beside = if place.path().exists() { Beside::Reader } else { Beside::Nobody };
    if matches!(requested(&place), Ok(false) | Err(RecordError::Form)) {
        // The module of this start has begun without it, so the record has neighbours of touched pages.
        if let Ok((listener, _)) = Listener::new() {
            learn::learn(&place, &command, pid, &listener, beside);
        }
    }
}

/// Requests the pages of the record, if there is one. Returns true if no start has to be learned.
fn requested(place: &Place) -> Result<bool, RecordError> {
    let Some(mut file) = place.open()? else { return Ok(false) };
    let header = Header::read(&mut file)?;
    request_recorded(file);
    Ok(!header.is_wanting())
}
