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

use becalm_core::record::compare::listed;
use becalm_core::record::ld_debug::{ProcessRecord, Search, parse};
use bstr::{BString, ByteSlice};

use crate::child::status_within;
use crate::trace::TraceError;

/// The usual time limit of a run.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The loader's output for one start.
#[derive(Debug)]
pub struct Listing {
    /// The searches of the program's start, and those at run time.
    pub searches: Vec<Search>,
    /// The files that the loader listed as loaded, including itself, in load order.
    pub listed: Vec<BString>,
    /// The loader's fatal error, if there was one.
    pub fatal: Option<BString>,
}

/// Has the loader of an object list the loaded objects, in an empty environment: the one that the
/// kernel starts for a program, or `loader`.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn list(object: &Path, loader: Option<&Path>) -> Result<Listing, TraceError> {
    let path = with_slash(object);
    let mut command = Command::new(loader.unwrap_or(&path));
    command.args(loader.map(|_| &path)).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1");
    let (record, ended) = logged(command, object, LIMIT)?;
    let searches = ended.process(&record).map_or_else(Vec::new, |process| process.searches);
    Ok(Listing { searches, listed: listed(&ended.stdout), fatal: ended.fatal() })
}

/// Returns a path with a slash. A name without one would be searched for along `PATH`, and by a
/// loader as a library.
#[must_use]
pub fn with_slash(path: &Path) -> PathBuf {
    let has_slash = path.as_os_str().as_bytes().contains(&b'/');
    if has_slash { path.to_owned() } else { Path::new(".").join(path) }
}

/// Returns a function for `map_err` that makes a scratch error.
pub fn scratch(path: &Path) -> impl Fn(std::io::Error) -> TraceError + '_ {
    |source| TraceError::failed(path, "cannot create or read the record of the run", source)
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
pub fn run(mut command: Command, object: &Path, limit: Duration) -> Result<Ended, TraceError> {
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
        TraceError::failed(Path::new(command.get_program()), "cannot be started", source)
    })?;
    let pid = child.id();
    let status = status_within(&mut child, limit).map_err(&failed)?;
    let too_long = || TraceError::TooLong { command: object.to_owned(), limit };
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

/// Runs a command that starts a loader, and returns the loader's log. It is empty for a static program, a
/// loader other than glibc's, and in secure-execution mode.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn logged(
    mut command: Command,
    object: &Path,
    limit: Duration,
) -> Result<(Vec<u8>, Ended), TraceError> {
    let failed = scratch(object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    // The loader may run as another user, who must be able to create the log here.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).map_err(&failed)?;
    command.env("LD_DEBUG", "libs,files").env("LD_DEBUG_OUTPUT", dir.path().join("record"));
    let ended = run(command, object, limit)?;
    match fs::read(dir.path().join(format!("record.{}", ended.pid))) {
        Ok(record) => Ok((record, ended)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((Vec::new(), ended)),
        Err(error) => Err(failed(error)),
    }
}

/// The beginning of the loader's fatal error.
pub const FATAL: &[u8] = b"error while loading shared libraries: ";

impl Ended {
    /// Returns the loader's fatal error, if there was one: the text after [`FATAL`].
    #[must_use]
    pub fn fatal(&self) -> Option<BString> {
        let fatal = (!self.success).then(|| self.stderr.split_once_str(FATAL)).flatten();
        fatal.map(|(_, text)| BString::from(text.trim_ascii_end()))
    }

    /// Returns the process in a loader's log.
    #[must_use]
    pub fn process(&self, record: &[u8]) -> Option<ProcessRecord> {
        let mut processes = parse(record);
        let own = processes.iter().position(|process| process.pid == self.pid).unwrap_or(0);
        (own < processes.len()).then(|| processes.swap_remove(own))
    }
}
