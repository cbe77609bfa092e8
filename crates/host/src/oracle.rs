//! Runs real loaders and records their lookups, to compare predictions with them.
//!
//! A glibc loader lists and exits before any code of the program runs; another interpreter may do
//! anything. The caller decides which loaders to trust. `becalm check` runs nothing. The tests start
//! loaders in more ways (`becalm-testing`).

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::{listed, not_found, passed_over};
use becalm_core::record::ld_debug::{ProcessRecord, Search, parse};
use bstr::{BString, ByteSlice};
use thiserror::Error;

use crate::child::status_within;

/// The usual time limit of a run.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Has the loader of an object list the loaded objects, in an empty environment: the one that the
/// kernel starts for a program, or `loader`.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn list(object: &Path, loader: Option<&Path>) -> Result<LdDebug, OracleError> {
    let path = with_slash(object);
    let mut command = Command::new(loader.unwrap_or(&path));
    command.args(loader.map(|_| &path)).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1");
    ld_debug(command, object, LIMIT)
}

/// Returns a path with a slash. A name without one would be searched for along `PATH`, and by a
/// loader as a library.
#[must_use]
pub fn with_slash(path: &Path) -> PathBuf {
    let has_slash = path.as_os_str().as_bytes().contains(&b'/');
    if has_slash { path.to_owned() } else { Path::new(".").join(path) }
}

/// Errors of a run. If the loader rejects the object, that is no error: the record has it.
#[derive(Debug, Error)]
pub enum OracleError {
    /// The run exceeded its time limit.
    #[error("{}: did not end within {limit:?}", object.display())]
    TooLong {
        /// The object.
        object: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The command could not be started, or a scratch file not be created or read.
    #[error("{}: {what}", path.display())]
    Failed {
        /// The command or the object.
        path: PathBuf,
        /// The failure.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
}

/// Returns a function for `map_err` that makes a scratch error.
pub fn scratch(path: &Path) -> impl Fn(std::io::Error) -> OracleError + '_ {
    let what = "cannot create or read the record of the run";
    move |source| OracleError::Failed { path: path.to_owned(), what, source }
}

/// The result of a run.
pub struct Ended {
    /// Its process id.
    pub pid: u32,
    /// True for exit code 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs a command. At the time limit all its processes are killed.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn run(mut command: Command, object: &Path, limit: Duration) -> Result<Ended, OracleError> {
    let failed = scratch(object);
    // Files, because a program that fills a pipe would wait for a reader.
    let mut stdout = tempfile::tempfile().map_err(&failed)?;
    let mut stderr = tempfile::tempfile().map_err(&failed)?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(&failed)?)
        .stderr(stderr.try_clone().map_err(&failed)?);
    let spawned = command.spawn();
    let mut child = spawned.map_err(|source| {
        let path = command.get_program().into();
        OracleError::Failed { path, what: "cannot be started", source }
    })?;
    let pid = child.id();
    let status = status_within(&mut child, limit).map_err(&failed)?;
    let too_long = || OracleError::TooLong { object: object.to_owned(), limit };
    let success = status.ok_or_else(too_long)?.success();
    Ok(Ended {
        pid,
        success,
        stdout: rewound(&mut stdout).map_err(&failed)?,
        stderr: rewound(&mut stderr).map_err(&failed)?,
    })
}

fn rewound(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The loader's output for one start.
#[derive(Clone, Debug)]
pub struct LdDebug {
    /// The opens of the program's start, in order.
    pub probes: Vec<Probe>,
    /// The searches of these opens, and those at run time.
    pub searches: Vec<Search>,
    /// The files that the loader listed as loaded, including itself, in load order.
    pub listed: Vec<BString>,
    /// Needed strings that the loader listed as not found.
    pub missing: Vec<BString>,
    /// The loader's fatal error, if there was one: the text after "error while loading shared
    /// libraries: ".
    pub fatal: Option<BString>,
}

/// Runs a command that starts a loader, and reads its log. Without a log (a static program, a loader
/// other than glibc's, secure-execution mode) there are no probes.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn ld_debug(
    mut command: Command,
    object: &Path,
    limit: Duration,
) -> Result<LdDebug, OracleError> {
    let failed = scratch(object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    // The loader may run as another user, who must be able to create the log here.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).map_err(&failed)?;
    command.env("LD_DEBUG", "libs,files").env("LD_DEBUG_OUTPUT", dir.path().join("record"));
    let ended = run(command, object, limit)?;
    match fs::read(dir.path().join(format!("record.{}", ended.pid))) {
        Ok(record) => Ok(LdDebug::read(&record, &ended)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(LdDebug::read(&[], &ended)),
        Err(error) => Err(failed(error)),
    }
}

/// The beginning of the loader's fatal error.
pub const FATAL: &[u8] = b"error while loading shared libraries: ";

impl LdDebug {
    /// Reads a loader's log and the rest of its output.
    #[must_use]
    pub fn read(record: &[u8], ended: &Ended) -> Self {
        let (listed, missing) = (listed(&ended.stdout), not_found(&ended.stdout));
        let fatal = (!ended.success).then(|| ended.stderr.split_once_str(FATAL)).flatten();
        let fatal = fatal.map(|(_, text)| BString::from(text.trim_ascii_end()));
        let mut processes = parse(record);
        let own = processes.iter().position(|process| process.pid == ended.pid).unwrap_or(0);
        if own >= processes.len() {
            return Self { probes: Vec::new(), searches: Vec::new(), listed, missing, fatal };
        }
        let mut process = processes.swap_remove(own);
        let absent: Vec<BString> =
            missing.iter().cloned().chain(passed_over(&ended.stderr)).collect();
        if let Some(text) = &fatal {
            set_fatal_outcome(&mut process, text);
        }
        let (probes, searches) = (process.probes(&absent), process.searches);
        Self { probes, searches, listed, missing, fatal }
    }
}

/// Sets the outcome of the last attempt from the error that ended the loader.
fn set_fatal_outcome(process: &mut ProcessRecord, text: &BString) {
    let Some(search) = process.searches.last_mut() else { return };
    let mapped = search.mapped;
    let Some(tried) = search.tries.last_mut() else { return };
    let of_file = text.strip_prefix(tried.path.as_slice()).is_some_and(|r| r.starts_with(b": "));
    if of_file {
        tried.said = Some(Outcome::NotElf);
    } else if !mapped && tried.said.is_none() {
        tried.said = Some(Outcome::Miss);
    }
}
