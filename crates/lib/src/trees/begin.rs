//! Work before a program is started: it gets the table of its paths, which another process fills.

use std::env;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::index::variables::{NO_AHEAD, NO_BIND, OFF, SWITCHES, has_switch};
use crate::trees::door;
use crate::trees::packed::{Check, Pack};
use crate::trees::record::{Header, place};
use crate::trees::{NO_TREES, folder, is_slow};

/// Variables with directories that interpreters and loaders search.
pub(crate) const VARIABLES: [&str; 11] = [
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
    descriptors: [OwnedFd; 2],
    switch: String,
    /// The programs that earlier starts of the command started.
    pub programs: Vec<PathBuf>,
}

impl Offer {
    /// Leaves the descriptors open for the program, and returns the switch that names them; `None` if that
    /// fails. Without this they are closed by `execve`.
    #[must_use]
    pub fn accept(self) -> Option<String> {
        for descriptor in self.descriptors {
            fcntl_setfd(&descriptor, FdFlags::empty()).ok()?;
            std::mem::forget(descriptor);
        }
        Some(self.switch)
    }
}

/// Looks up what a command is known to look up, and learns from its start. Returns the table for the
/// program.
///
/// Nothing is an error: the program is started all the same. Call this while the process has one thread.
#[must_use]
pub fn begin(command: &Path, arguments: &[OsString], pack: Option<Pack>) -> Option<Offer> {
    (!is_off()).then_some(())?;
    let command = std::path::absolute(command).ok()?;
    let folder = folder::existing();
    let packed = pack.and_then(|pack| Header::at(&pack.place(folder.as_deref()?, &command)));
    let is_told = packed.is_some() && pack.is_some_and(|pack| pack.check == Check::Never);
    let pack = pack.filter(|pack| is_told || pack.check != Check::Never);
    let of_machine = || Header::at(&place(folder.as_deref()?, &command));
    let header = packed.filter(|_| is_told).or_else(of_machine).unwrap_or_default();
    (header.paths > 0 || is_used(&command, arguments)).then_some(())?;
    let programs = header.programs.into_iter().map(PathBuf::from).collect();
    let lasting = pack.filter(|pack| pack.check != Check::Start);
    let (descriptors, switch) = door::ask(&command, lasting)?;
    Some(Offer { descriptors, switch, programs })
}

/// True if programs get no answers (`BECALM`).
#[must_use]
pub fn is_off() -> bool {
    let switches = env::var_os(SWITCHES);
    let off = [NO_AHEAD, NO_TREES, NO_BIND, OFF];
    off.iter().any(|it| has_switch(switches.as_deref(), it))
}

/// True if the command, one of its first arguments, the current directory or the first directory of a
/// variable is on a network's file system.
fn is_used(command: &Path, arguments: &[OsString]) -> bool {
    let arguments = arguments.iter().take(ARGUMENTS).map(PathBuf::from);
    let first = |name: &&str| env::split_paths(&env::var_os(name)?).next();
    let mut paths = [command.into(), ".".into()].into_iter().chain(arguments);
    paths.any(|it| is_networked(&it))
        || VARIABLES.iter().filter_map(first).any(|it| is_networked(&it))
}

/// True if a file, or the directory of the link that names it, is on a network's file system.
pub(crate) fn is_networked(path: &Path) -> bool {
    // Only file systems without a device have such numbers.
    let is_without_device =
        |path: &Path| path.metadata().is_ok_and(|facts| rustix::fs::major(facts.dev()) == 0);
    let is_there = |path: &Path| is_without_device(path) && is_slow(path);
    // A virtual environment's program is a link to one elsewhere.
    is_there(path) || path.parent().is_some_and(|it| it != Path::new("") && is_there(it))
}
