//! Starts of real loaders, to compare predictions with their records: inside another root, as
//! another user, with an emulator.
//!
//! The caller decides which loaders to trust. Under [`Launch::Trace`] the kernel starts the
//! interpreter that the program names. A glibc loader lists and exits before any code of the
//! program runs; another interpreter may do anything.

use std::ffi::{CString, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::listed;
use becalm_core::record::ld_debug::{ProcessRecord, Search};
use becalm_host::oracle::{self, Ended, FATAL, LIMIT, with_slash};
use bstr::{BString, ByteSlice};

use crate::strace::not_found;

pub use becalm_host::oracle::scratch;
pub use becalm_host::trace::TraceError;

/// A start of a loader on an object.
#[derive(Clone, Debug)]
pub struct Start {
    /// The object's path as passed to the loader (`argv[0]` of a program).
    pub object: PathBuf,
    /// The method of starting the loader.
    pub launch: Launch,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Another root directory, which only root can use. All other paths here are inside it, and the
    /// process starts at its top.
    pub root: Option<PathBuf>,
    /// A static qemu-user for objects of another architecture.
    pub emulator: Option<PathBuf>,
    /// Run as this user, without supplementary groups. Only root can use this, and not together
    /// with another root directory.
    pub user: Option<User>,
    /// The current directory, if `root` is not set.
    pub dir: Option<PathBuf>,
    /// Time limit; a run that exceeds it is killed and fails.
    pub limit: Duration,
}

/// Method of starting a loader on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// The kernel starts the program, and `LD_TRACE_LOADED_OBJECTS` makes its glibc loader list the
    /// loaded objects and exit. Not for set-id programs.
    Trace,
    /// `LOADER OBJECT` with the same variable, as `ldd` does it, for libraries and set-id programs.
    /// `$ORIGIN` of a symlinked program then has another value.
    TraceBy {
        /// A glibc loader.
        loader: PathBuf,
    },
    /// `LOADER --list OBJECT`, for musl. A glibc loader would stop at the first missing library.
    List {
        /// The loader.
        loader: PathBuf,
    },
    /// The program runs; for programs that the tests create.
    Execute,
}

/// A user to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, as `strace -u` expects it.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// Returns the user who owns no files, with Debian's numbers.
    #[must_use]
    pub fn nobody() -> Self {
        User { name: "nobody".into(), uid: 65534, gid: 65534 }
    }
}

impl Start {
    /// Creates a start of `object` with an empty environment and a limit of ten seconds.
    #[must_use]
    pub fn new(object: impl Into<PathBuf>, launch: Launch) -> Self {
        Start {
            object: object.into(),
            launch,
            env: Vec::new(),
            root: None,
            emulator: None,
            user: None,
            dir: None,
            limit: LIMIT,
        }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Returns the loader if it is on the command line and so opens the object itself.
    #[must_use]
    pub fn named_loader(&self) -> Option<&Path> {
        match &self.launch {
            Launch::TraceBy { loader } | Launch::List { loader } => Some(loader),
            Launch::Trace | Launch::Execute => None,
        }
    }

    /// Returns the command line that starts the loader on the object.
    #[must_use]
    pub fn command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        line.extend(self.emulator.as_ref().map(OsString::from));
        match &self.launch {
            Launch::TraceBy { loader } => line.push(loader.into()),
            Launch::List { loader } => line.extend([loader.into(), "--list".into()]),
            Launch::Trace | Launch::Execute => {}
        }
        line.push(with_slash(&self.object).into());
        line
    }

    /// Returns the environment of that command line. An emulator passes its own environment on.
    #[must_use]
    pub fn whole_env(&self, extra: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let traced = matches!(self.launch, Launch::Trace | Launch::TraceBy { .. });
        let trace = traced.then(|| ("LD_TRACE_LOADED_OBJECTS".into(), "1".into()));
        self.env.iter().chain(extra).cloned().chain(trace).collect()
    }
}

/// The loader's output for one start.
#[derive(Clone, Debug, Default)]
pub struct LdDebug {
    /// The opens of the program's start, in order.
    pub probes: Vec<Probe>,
    /// The searches of these opens, and those at run time.
    pub searches: Vec<Search>,
    /// The files that the loader listed as loaded, including itself, in load order.
    pub listed: Vec<BString>,
    /// Needed strings that the loader listed as not found.
    pub missing: Vec<BString>,
    /// The loader's fatal error, if there was one.
    pub fatal: Option<BString>,
}

impl LdDebug {
    /// Reads a loader's log and the rest of its output.
    #[must_use]
    pub fn read(record: &[u8], ended: &Ended) -> Self {
        let (listed, missing) = (listed(&ended.stdout), not_found(&ended.stdout));
        let fatal = ended.fatal();
        let Some(mut process) = ended.process(record) else {
            return Self { listed, missing, fatal, ..Self::default() };
        };
        let absent: Vec<BString> =
            missing.iter().cloned().chain(passed_over(&ended.stderr)).collect();
        if let Some(text) = &fatal {
            set_fatal_outcome(&mut process, text);
        }
        let (probes, searches) = (process.probes(&absent), process.searches);
        Self { probes, searches, listed, missing, fatal }
    }
}

/// Parses the names of the preloads and audit modules that a loader could not load, from its warnings
/// on standard error (glibc `elf/rtld.c` `do_preload`, `report_audit_module_load_error`).
fn passed_over(stderr: &[u8]) -> Vec<BString> {
    let name = |line: &[u8]| {
        let (_, rest) = line.split_once_str(b"ERROR: ld.so: object '")?;
        let end = rest.find(b"' from ").or_else(|| rest.find(b"' cannot be loaded"))?;
        Some(BString::from(&rest[..end]))
    };
    stderr.split(|byte| *byte == b'\n').filter_map(name).collect()
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

/// Starts the object and reads its loader's log. Without a log (a static program, a loader other
/// than glibc's) there are no probes.
///
/// In secure-execution mode a loader writes no log; use [`crate::strace`] instead.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn ld_debug(start: &Start) -> Result<LdDebug, TraceError> {
    let command = || {
        let mut command = command(start, &start.command_line(), &start.whole_env(&[]));
        confine(&mut command, start);
        command
    };
    if start.root.is_none() {
        let (record, ended) =
            again(start, || oracle::logged(command(), &start.object, start.limit))?;
        return Ok(LdDebug::read(&record, &ended));
    }
    // Inside another root a scratch directory has no path.
    let ended = again(start, || {
        let mut command = command();
        command.env("LD_DEBUG", "libs,files");
        oracle::run(command, &start.object, start.limit)
    })?;
    Ok(LdDebug::read(&without_errors(&ended.stderr), &ended))
}

/// Runs a command line that starts the object, such as that of a tracer, without input and
/// environment.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub(crate) fn run(start: &Start, line: &[OsString]) -> Result<Ended, TraceError> {
    again(start, || oracle::run(command(start, line, &[]), &start.object, start.limit))
}

/// Runs again on `ETXTBSY`: if the program was just written, another thread's child may still have
/// it open for writing between its fork and exec.
fn again<T>(start: &Start, run: impl Fn() -> Result<T, TraceError>) -> Result<T, TraceError> {
    let began = Instant::now();
    loop {
        match run() {
            Err(TraceError::Failed { source, .. })
                if source.kind() == ErrorKind::ExecutableFileBusy
                    && began.elapsed() < start.limit =>
            {
                sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

fn command(start: &Start, line: &[OsString], env: &[(OsString, OsString)]) -> Command {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &start.dir {
        command.current_dir(dir);
    }
    command
}

/// Makes the child change its root and its user.
#[allow(unsafe_code, reason = "std has no stable way to change a child's root")]
fn confine(command: &mut Command, start: &Start) {
    if let Some(root) = &start.root {
        // A path with a NUL cannot exist, and neither does the empty path.
        let root = CString::new(root.as_os_str().as_bytes()).unwrap_or_default();
        #[allow(unsafe_code, reason = "a chroot has to happen in the child")]
        // SAFETY: between fork and exec only two system calls are made, on a path that was
        // allocated before. rustix calls the kernel without taking locks.
        unsafe {
            command.pre_exec(move || {
                rustix::process::chroot(root.as_c_str())?;
                // chroot(2) does not change the current directory, which would stay outside of the
                // new root.
                Ok(rustix::process::chdir(c"/")?)
            });
        }
    }
    if let Some(user) = &start.user {
        command.uid(user.uid).gid(user.gid);
    }
}

/// Removes the loader's warnings and errors from its log, which goes to standard error inside
/// another root. They have no prefix and would count as the continuation of a name.
fn without_errors(stderr: &[u8]) -> Vec<u8> {
    let record = |line: &&[u8]| !line.starts_with(b"ERROR: ld.so: ") && !line.contains_str(FATAL);
    stderr.split_inclusive(|byte| *byte == b'\n').filter(record).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests;
