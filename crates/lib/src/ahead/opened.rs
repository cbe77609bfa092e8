//! Records files that a traced program has opened: those that it reads are in no page table.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::ahead::record::{Place, Record, RecordError, SCHEMA};
use crate::run::program;

/// Adds files to the record of a command. Directories and other files that are not regular are left
/// out. Returns the number of files.
///
/// # Errors
/// Returns an error if the command cannot be found or the record cannot be written.
pub fn record(
    command: &OsStr,
    opened: impl Iterator<Item = PathBuf>,
) -> Result<usize, RecordError> {
    let path = program::find(command).map_err(|_| RecordError::NoCommand)?.path;
    let path = std::path::absolute(&path).unwrap_or(path);
    let place = Place::of(&path)?;
    let Some(_lock) = place.lock()? else { return Err(RecordError::Busy) };
    let known = place.open()?.and_then(|file| Record::read(file).ok());
    let mut record = known.unwrap_or_default();
    record.header.schema = SCHEMA.to_owned();
    record.header.command = path.to_string_lossy().into_owned();
    let count = record.add_opened(opened);
    let written = place.write(&record);
    place.unlock();
    written.map(|()| count)
}
