//! Fork, attach, filter, exec: a child that is watched from its first instruction on.
//!
//! The child waits until it is attached, installs the filter and becomes the program;
//! what goes wrong it reports through a pipe that a successful `execve` closes.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::filter;
use super::stopped;
use super::sys::{self, Pid};
use super::{Command, TraceError};

/// A child that is attached and waits to be let go.
pub(super) struct Spawned {
    /// Its process id.
    pub(super) pid: Pid,
    go: Option<io::PipeWriter>,
    reports: io::PipeReader,
}

/// What a child says before it becomes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// There is no filter.
    NoFilter(i32),
    /// The filter needed `no_new_privs`.
    NoNewPrivileges,
    /// The directory cannot be entered.
    Directory(i32),
    /// `execve` failed.
    Exec(i32),
}

/// Calls of `getppid` that each child makes once it is let go, for
/// [`super::calibrate`]. Enough for a steady median, few enough not to be felt.
pub(super) const CALLS: usize = 16;

/// What the child does after those.
pub(super) enum Body {
    /// Becomes a program.
    Exec(Exec),
    /// Ends.
    End,
}

/// The arguments of `execve`, all allocated before the fork.
pub(super) struct Exec {
    path: CString,
    dir: Option<CString>,
    // What the pointers point to.
    _strings: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Exec {
    /// Finds the program and lays out its arguments.
    pub(super) fn new(command: &Command) -> Result<(Exec, PathBuf), TraceError> {
        let env = command.env.clone().unwrap_or_else(|| std::env::vars_os().collect());
        let path = find(command, &env)?;
        let nul = |_| TraceError::Nul { command: command.program.clone().into() };
        let c_string = |text: &OsStr| CString::new(text.as_bytes()).map_err(nul);
        let mut strings = vec![c_string(&command.program)?];
        for arg in &command.args {
            strings.push(c_string(arg)?);
        }
        let args = strings.len();
        for (name, value) in &env {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            strings.push(CString::new(variable.into_vec()).map_err(nul)?);
        }
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let exec = Exec {
            path: c_string(path.as_os_str())?,
            dir: command.dir.as_ref().map(|dir| c_string(dir.as_os_str())).transpose()?,
            argv: pointers(&strings[..args]),
            envp: pointers(&strings[args..]),
            _strings: strings,
        };
        Ok((exec, path))
    }
}

/// The file that a shell would run: the name itself where it holds a slash, else the
/// first executable file along `PATH`.
pub(super) fn find(command: &Command, env: &[(OsString, OsString)]) -> Result<PathBuf, TraceError> {
    let name = &command.program;
    let not_found = || TraceError::NotFound { command: name.into() };
    if name.is_empty() {
        return Err(not_found());
    }
    if name.as_bytes().contains(&b'/') {
        let seen_from = command.dir.as_deref().unwrap_or(Path::new("")).join(name);
        return match seen_from.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found()),
            _ => Ok(name.into()),
        };
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
    let mut denied = None;
    for dir in std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let candidate = dir.join(name);
        if !candidate.is_file() {
            continue;
        }
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

/// Why nothing was spawned.
pub(super) enum Failed {
    /// No pipe, no process.
    Fork(io::Error),
    /// It may not be attached.
    Seize(io::Error),
}

/// Forks a child and attaches to it. Where `filtered`, it installs the filter before its
/// `execve`.
pub(super) fn spawn(body: &Body, filtered: bool) -> Result<Spawned, Failed> {
    let (wait, go) = io::pipe().map_err(Failed::Fork)?;
    let (reports, report) = io::pipe().map_err(Failed::Fork)?;
    let filter = filtered.then(filter::program);
    #[allow(unsafe_code, reason = "std can start no child that is to be attached first")]
    // SAFETY: the child makes system calls on memory allocated before the fork and
    // nothing else, then ends: no lock another thread may hold is taken.
    let pid = unsafe {
        match libc::fork() {
            0 => child(
                body,
                filter.as_deref(),
                [wait.as_raw_fd(), go.as_raw_fd(), report.as_raw_fd()],
            ),
            pid => pid,
        }
    };
    drop((wait, report));
    if pid < 0 {
        return Err(Failed::Fork(io::Error::last_os_error()));
    }
    if let Err(error) = stopped::seize(pid) {
        // Without the byte it waits for, the child ends by itself.
        drop(go);
        let _ = sys::wait(Some(pid));
        return Err(Failed::Seize(error));
    }
    Ok(Spawned { pid, go: Some(go), reports })
}

impl Spawned {
    /// Lets the child go.
    pub(super) fn go(&mut self) -> io::Result<()> {
        self.go.take().map_or(Ok(()), |mut go| go.write_all(b"g"))
    }

    /// Ends a child that has not become a program and shall not.
    pub(super) fn abandon(self) {
        sys::kill(self.pid, libc::SIGKILL);
        while let Ok((_, status)) = sys::wait(Some(self.pid)) {
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                break;
            }
        }
    }

    /// What the child said. To be called once it is a program or has ended.
    pub(super) fn reports(&mut self) -> Vec<Report> {
        let mut bytes = Vec::new();
        // A report that cannot be read is one that was not made.
        let _ = (&mut self.reports).take(64).read_to_end(&mut bytes);
        bytes.chunks_exact(5).filter_map(report).collect()
    }
}

fn report(bytes: &[u8]) -> Option<Report> {
    let errno = i32::from_ne_bytes(bytes.get(1..5)?.try_into().ok()?);
    Some(match bytes[0] {
        b'F' => Report::NoFilter(errno),
        b'N' => Report::NoNewPrivileges,
        b'D' => Report::Directory(errno),
        b'E' => Report::Exec(errno),
        _ => return None,
    })
}

/// The child between fork and exec.
#[allow(unsafe_code, reason = "only bare system calls are allowed here")]
unsafe fn child(body: &Body, filter: Option<&[libc::sock_filter]>, fds: [i32; 3]) -> ! {
    let [wait, go, report] = fds;
    // SAFETY: system calls on descriptors and memory this process owns; no allocation.
    unsafe {
        libc::close(go);
        let mut byte = 0u8;
        loop {
            match libc::read(wait, (&raw mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(127),
            }
        }
        for _ in 0..CALLS {
            libc::syscall(libc::SYS_getppid);
        }
        // Rust's start-up ignores it; the program is to find what a shell gives.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Body::Exec(Exec { dir: Some(dir), .. }) = body
            && libc::chdir(dir.as_ptr()) != 0
        {
            say(report, b'D');
            libc::_exit(127);
        }
        if let Some(filter) = filter {
            install(filter, report);
        }
        match body {
            Body::Exec(exec) => {
                libc::execve(exec.path.as_ptr(), exec.argv.as_ptr(), exec.envp.as_ptr());
                say(report, b'E');
                libc::_exit(127)
            }
            Body::End => libc::_exit(0),
        }
    }
}

/// Installs the filter, under `no_new_privs` where it has to be.
#[allow(unsafe_code, reason = "runs between fork and exec")]
unsafe fn install(filter: &[libc::sock_filter], report: i32) {
    /// `SECCOMP_FILTER_FLAG_SPEC_ALLOW`: the filter is no sandbox and shall not slow
    /// the program down.
    const SPEC_ALLOW: libc::c_ulong = 4;
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_ptr().cast_mut(),
    };
    let set = |flags: libc::c_ulong| {
        // SAFETY: the kernel reads `len` instructions, which are there.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            ) == 0
        }
    };
    // SAFETY: `prctl` with numbers, and writes to a pipe of this process.
    unsafe {
        if set(SPEC_ALLOW) {
            return;
        }
        if *libc::__errno_location() == libc::EACCES {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if set(SPEC_ALLOW) {
                say(report, b'N');
                return;
            }
        }
        say(report, b'F');
    }
}

/// Writes a report: a letter and errno.
#[allow(unsafe_code, reason = "runs between fork and exec")]
unsafe fn say(report: i32, what: u8) {
    // SAFETY: five bytes of the stack are written to a pipe.
    unsafe {
        let errno = (*libc::__errno_location()).to_ne_bytes();
        let bytes = [what, errno[0], errno[1], errno[2], errno[3]];
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
    }
}
