//! Fork, attach, filter, exec: starts a child that is traced from its first instruction on.
//!
//! The child waits until the tracer is attached, installs the filter and calls `execve`. It reports
//! errors through a pipe that a successful `execve` closes.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::filter;
use super::stopped::{self, Waited};
use super::sys::{self, Pid};
use super::{Command, Streams, TraceError};
use crate::inherited;
use crate::path::path_of;

/// A child that is attached and waits for the go-ahead.
pub(super) struct Spawned {
    /// Its process id.
    pub(super) pid: Pid,
    go: Option<io::PipeWriter>,
    reports: io::PipeReader,
}

/// A report of the child before its `execve`: one of these letters, and an errno.
type Report = (u8, i32);

/// The filter could not be installed.
pub(super) const NO_FILTER: u8 = b'F';
/// The filter needed `no_new_privs`.
pub(super) const NO_NEW_PRIVILEGES: u8 = b'N';
/// The child could not enter the directory.
const DIRECTORY: u8 = b'D';
/// `execve` failed.
const EXEC: u8 = b'E';

/// Number of `getppid` calls that each child makes when it starts, for [`super::calibrate`]. The
/// number is enough for a stable median and small enough to cost no noticeable time.
pub(super) const CALLS: usize = 16;

/// The arguments of `execve`, allocated before the fork.
pub(super) struct Exec {
    path: CString,
    dir: Option<CString>,
    streams: Option<Streams>,
    // Owns the memory that `argv` and `envp` point to.
    _strings: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    /// `None` inherits this process's.
    envp: Option<Vec<*const libc::c_char>>,
}

impl Exec {
    /// Finds the program and builds its argument and environment arrays.
    pub(super) fn new(command: &Command) -> Result<Exec, TraceError> {
        let path = command.file()?;
        let nul = |_| TraceError::Nul(command.program.clone().into());
        let c_string = |text: &OsStr| CString::new(text.as_bytes()).map_err(nul);
        let mut strings = vec![c_string(&command.program)?];
        for arg in &command.args {
            strings.push(c_string(arg)?);
        }
        let args = strings.len();
        for (name, value) in command.env.iter().flatten() {
            strings.push(c_string(&[name.as_os_str(), value].join(OsStr::new("=")))?);
        }
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        Ok(Exec {
            path: c_string(path.as_os_str())?,
            dir: command.dir.as_ref().map(|dir| c_string(dir.as_os_str())).transpose()?,
            streams: command.streams.clone(),
            argv: pointers(&strings[..args]),
            envp: command.env.as_ref().map(|_| pointers(&strings[args..])),
            _strings: strings,
        })
    }

    /// Returns the path of the program's file.
    pub(super) fn file(&self) -> PathBuf {
        path_of(self.path.to_bytes())
    }
}

/// Returns the file that a shell would execute: the name itself if it has a slash, or the first
/// executable file along `PATH`.
pub(super) fn find(command: &Command, env: &[(OsString, OsString)]) -> Result<PathBuf, TraceError> {
    let name = &command.program;
    let not_found = || TraceError::NotFound(name.into());
    if name.is_empty() {
        return Err(not_found());
    }
    if name.as_bytes().contains(&b'/') {
        // The child changes its directory before `execve`, so a relative path starts there.
        let seen_from = command.dir.as_deref().unwrap_or(Path::new("")).join(name);
        return match seen_from.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found()),
            _ => Ok(name.into()),
        };
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
    let mut denied = None;
    // execvp(3) uses the same directories if `PATH` is unset.
    for dir in std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
        // An empty element means the current directory (POSIX, "PATH").
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let candidate = dir.join(name);
        if !candidate.is_file() {
            continue;
        }
        // A file without the permission does not end the search (execvp(3), "EACCES").
        match rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK) {
            Ok(()) => return Ok(candidate),
            Err(errno) => denied = denied.or(Some((candidate, errno))),
        }
    }
    Err(denied.map_or_else(not_found, |(command, errno)| TraceError::Exec {
        command,
        source: errno.into(),
    }))
}

/// Forks a child and attaches to it. If `filtered`, the child installs the filter before its
/// `execve`.
///
/// # Errors
/// Returns an error if there can be no process, or the tracer may not attach.
pub(super) fn spawn(
    exec: Option<&Exec>,
    filtered: bool,
    follows: bool,
) -> Result<Spawned, TraceError> {
    let command = exec.map(Exec::file).unwrap_or_default();
    let not_forked = |source| TraceError::failed(&command, "cannot create a process", source);
    let (wait, go) = io::pipe().map_err(not_forked)?;
    let (reports, report) = io::pipe().map_err(not_forked)?;
    // Built before the fork, because the child may not allocate memory.
    let filter = filtered.then(filter::program);
    let fds = [wait.as_raw_fd(), go.as_raw_fd(), report.as_raw_fd()];
    #[allow(unsafe_code, reason = "std can start no child that is to be attached first")]
    // SAFETY: the child only makes system calls on memory allocated before the fork, and then
    // exits. It takes no lock that another thread may hold.
    let pid = unsafe {
        // The time of execve includes freeing the child's copy of this heap, so its free part goes first.
        #[cfg(target_env = "gnu")]
        libc::malloc_trim(0);
        match libc::fork() {
            0 => child(exec, filter.as_deref(), fds),
            pid => pid,
        }
    };
    // If this process kept the write end, reading the reports would never reach their end.
    drop((wait, report));
    if pid < 0 {
        return Err(not_forked(io::Error::last_os_error()));
    }
    if let Err(error) = stopped::seize(pid, follows) {
        // Without the go-ahead byte the child exits.
        drop(go);
        let _ = sys::wait(Some(pid));
        return Err(TraceError::NotPermitted { command, source: error });
    }
    Ok(Spawned { pid, go: Some(go), reports })
}

impl Spawned {
    /// Gives the child the go-ahead.
    pub(super) fn go(&mut self) -> io::Result<()> {
        self.go.take().map_or(Ok(()), |mut go| go.write_all(b"g"))
    }

    /// Kills a child that has not called `execve`.
    pub(super) fn abandon(self) {
        sys::kill(self.pid, libc::SIGKILL);
        // Stops from before the kill may be reported first.
        while let Ok(Waited::Stop(..)) = stopped::wait(Some(self.pid)) {}
    }

    /// Returns the child's reports. Call this after the child's `execve` or its end.
    pub(super) fn reports(&mut self) -> Vec<Report> {
        // The write end closes at `execve` (close-on-exec) or when the child ends, so the read does
        // not block.
        let mut bytes = Vec::new();
        // If the pipe cannot be read, there are no reports.
        let _ = (&mut self.reports).take(64).read_to_end(&mut bytes);
        let reports = bytes.chunks_exact(5);
        reports.map(|it| (it[0], i32::from_ne_bytes([it[1], it[2], it[3], it[4]]))).collect()
    }

    /// Returns the error of a command that was not executed.
    pub(super) fn never_started(&mut self, exec: &Exec) -> TraceError {
        let is_fatal = |report: &Report| matches!(report.0, EXEC | DIRECTORY);
        let source = io::Error::from_raw_os_error;
        match self.reports().into_iter().find(is_fatal) {
            Some((EXEC, errno)) => TraceError::Exec { command: exec.file(), source: source(errno) },
            Some((_, errno)) => {
                let dir = path_of(exec.dir.as_deref().unwrap_or_default().to_bytes());
                TraceError::failed(&dir, "cannot be entered", source(errno))
            }
            None => {
                let killed = io::Error::other("it was killed while being loaded; is it complete?");
                TraceError::failed(&exec.file(), "execve failed", killed)
            }
        }
    }
}

/// The child's code between fork and exec.
#[allow(unsafe_code, reason = "only bare system calls are allowed here")]
unsafe fn child(exec: Option<&Exec>, filter: Option<&[libc::sock_filter]>, fds: [i32; 3]) -> ! {
    let [wait, go, report] = fds;
    // SAFETY: system calls on descriptors and memory this process owns; no allocation.
    unsafe {
        // If the child kept this write end, it would not notice the end of the tracer.
        libc::close(go);
        let mut byte = 0u8;
        loop {
            match libc::read(wait, (&raw mut byte).cast(), 1) {
                // A closed pipe means that the tracer could not attach or has died.
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(127),
            }
        }
        for _ in 0..CALLS {
            libc::syscall(libc::SYS_getppid);
        }
        inherited::restore();
        if let Some(Exec { dir: Some(dir), .. }) = exec
            && libc::chdir(dir.as_ptr()) != 0
        {
            write_report(report, DIRECTORY);
            libc::_exit(127);
        }
        if let Some(Exec { streams: Some(streams), .. }) = exec {
            // `dup2` clears the close-on-exec flag of the copy (dup(2)).
            for (at, file) in streams.files().into_iter().enumerate() {
                // Fails only for descriptors that are not open, and these are.
                libc::dup2(file.as_raw_fd(), at as i32);
            }
        }
        // Installed last, because the filter cannot be removed and applies to every later call.
        if let Some(filter) = filter {
            install(filter, report);
        }
        let Some(exec) = exec else { libc::_exit(0) };
        match &exec.envp {
            Some(envp) => libc::execve(exec.path.as_ptr(), exec.argv.as_ptr(), envp.as_ptr()),
            None => libc::execv(exec.path.as_ptr(), exec.argv.as_ptr()),
        };
        write_report(report, EXEC);
        libc::_exit(127)
    }
}

/// Installs the filter, under `no_new_privs` if the kernel requires it.
#[allow(unsafe_code, reason = "runs between fork and exec")]
unsafe fn install(filter: &[libc::sock_filter], report: i32) {
    /// `SECCOMP_FILTER_FLAG_SPEC_ALLOW` keeps speculation enabled: the filter is no sandbox and
    /// must not slow the program down.
    const SPEC_ALLOW: libc::c_ulong = 4;
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_ptr().cast_mut(),
    };
    let set = |flags: libc::c_ulong| {
        // SAFETY: the kernel reads `len` instructions from an array of that length.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            ) == 0
        }
    };
    // SAFETY: `prctl` takes integers, and the report goes to a pipe of this process.
    unsafe {
        if set(SPEC_ALLOW) {
            return;
        }
        // EACCES means that the process has neither CAP_SYS_ADMIN nor no_new_privs.
        if *libc::__errno_location() == libc::EACCES {
            // Only if necessary, because set-id programs lose their rights under `no_new_privs`.
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if set(SPEC_ALLOW) {
                write_report(report, NO_NEW_PRIVILEGES);
                return;
            }
        }
        write_report(report, NO_FILTER);
    }
}

/// Writes a report: a letter and errno.
#[allow(unsafe_code, reason = "runs between fork and exec")]
unsafe fn write_report(report: i32, what: u8) {
    // SAFETY: `write` reads five bytes of an array of that length.
    unsafe {
        // Read before `write`, which may change it.
        let errno = (*libc::__errno_location()).to_ne_bytes();
        let bytes = [what, errno[0], errno[1], errno[2], errno[3]];
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
    }
}
