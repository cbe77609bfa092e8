//! Work before a program is started: the table of its paths is made, and a process begun that fills it.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use becalm_host::detached::{Detached, Priority, detached_with};
use becalm_host::tree::look::Changes;
use becalm_host::tree::table::{self, Sizes};

use crate::index::variables::{NO_AHEAD, NO_BIND, OFF, SWITCHES, has_switch};
use crate::trees::attend::Attended;
use crate::trees::record::{Header, Place};
use crate::trees::{NO_TREES, folder, is_slow};

/// Variables with directories that interpreters and loaders search.
const VARIABLES: [&str; 11] = [
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "NODE_PATH",
    "PERL5LIB",
    "RUBYLIB",
    "GEM_PATH",
    "R_LIBS",
    "R_LIBS_USER",
    "JULIA_DEPOT_PATH",
    "LD_LIBRARY_PATH",
];
/// The number of arguments that may name a script or a file.
const ARGUMENTS: usize = 4;

/// The table of a start, which the program inherits.
#[derive(Debug)]
pub struct Offer {
    table: OwnedFd,
    changes: Changes,
}

impl Offer {
    /// Leaves the descriptors open for the program, and returns the switch that names them.
    #[must_use]
    pub fn accept(self) -> String {
        let switch = format!("trees:{}", self.table.as_raw_fd());
        std::mem::forget((self.table, self.changes));
        switch
    }
}

/// Looks up what a command is known to look up, and learns from its start. Returns the table for the
/// program.
///
/// Nothing is an error: the program is started all the same. Call this while the process has one thread.
#[must_use]
pub fn begin(command: &Path, arguments: &[OsString]) -> Option<Offer> {
    let switches = env::var_os(SWITCHES);
    let off = [NO_AHEAD, NO_TREES, NO_BIND, OFF];
    if off.iter().any(|it| has_switch(switches.as_deref(), it)) {
        return None;
    }
    let command = std::path::absolute(command).ok()?;
    let folder = folder::existing();
    let mut record =
        folder.as_ref().map(|it| Place::of(it.clone(), &command)).and_then(|it| it.open());
    let header = record.as_mut().and_then(Header::read);
    let is_known = header.as_ref().is_some_and(|it| it.paths > 0);
    if !is_known && !is_used(&command, arguments) {
        return None;
    }
    let sizes = header.as_ref().map_or(Sizes { entries: 0, text: 0 }, Header::sizes);
    let changes = Changes::new().ok()?;
    let logs_all = header.as_ref().is_none_or(|it| it.paths == 0 || it.is_wanting());
    let table = table::make(sizes, changes.descriptor(), logs_all).ok()?;
    let attended = Attended {
        command,
        process: std::process::id(),
        folder,
        header: header.unwrap_or_default(),
    };
    // Another start may replace the file meanwhile.
    let record = record.or_else(|| File::open("/dev/null").ok())?.into();
    let keep = [&table, changes.descriptor(), &record];
    match detached_with(keep, Priority::Normal, |[table, changes, record]| {
        attended.attend(table, changes, record.into());
    }) {
        Ok(Detached::Yes) => Some(Offer { table, changes }),
        Ok(Detached::WouldBeAChild) | Err(_) => None,
    }
}

/// True if the command, one of its first arguments, the current directory or the first directory of a
/// variable is on a network's file system.
fn is_used(command: &Path, arguments: &[OsString]) -> bool {
    // Only file systems without a device have such numbers.
    let is_without_device =
        |path: &Path| path.metadata().is_ok_and(|facts| rustix::fs::major(facts.dev()) == 0);
    let arguments = arguments.iter().take(ARGUMENTS).map(Path::new);
    let values: Vec<OsString> = VARIABLES.iter().filter_map(env::var_os).collect();
    let variables: Vec<PathBuf> =
        values.iter().filter_map(|value| env::split_paths(value).next()).collect();
    let paths = [command, Path::new(".")].into_iter().chain(arguments);
    let mut paths = paths.chain(variables.iter().map(PathBuf::as_path));
    let is_there = |path: &Path| is_without_device(path) && is_slow(path);
    // A virtual environment's program is a link to one elsewhere.
    paths.any(|path| is_there(path) || path.parent().is_some_and(is_there))
}
