//! Runs the tracer in a child of the process that the user started: see [`Supervisor`].

#![allow(unsafe_code, reason = "fork and _exit have no safe form")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::signals;
use super::stopped::{self, Waited};
use super::sys::{self, Pid};

/// The process that the user started, if the tracer runs in a child of it. The supervisor forwards
/// signals, stops and continues together with the program, and exits with the program's exit code.
/// Killing the supervisor ends neither the program nor the tracer.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pid: Pid,
    line: Arc<OwnedFd>,
}

impl Supervisor {
    /// Forks and returns in the child. The parent stays in this function and exits with the code
    /// passed to [`Supervisor::release`], or with the child's exit code. Call this before starting
    /// any thread.
    ///
    /// # Errors
    /// Returns the error of `socketpair` or `fork`. The caller can then trace without a supervisor.
    pub fn enter() -> io::Result<Supervisor> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        // Read before the fork: if the parent ended at once, `getppid` in the child would return
        // another process.
        // SAFETY: getpid takes nothing.
        let pid = unsafe { libc::getpid() };
        // SAFETY: the caller has no other thread, so the child inherits no lock that another thread
        // holds.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                Ok(Supervisor { pid, line: Arc::new(theirs) })
            }
            tracer => {
                // Otherwise `recv` would not return when the tracer ends, because this copy would
                // keep the connection open.
                drop(theirs);
                supervise(tracer, &ours)
            }
        }
    }

    /// Makes the supervisor exit with `code` now, while this process keeps serving the remaining
    /// processes (see [`super::Rest`]).
    pub fn release(&self, code: u8) {
        // If the supervisor has already ended, nobody waits for the code.
        let _ = rustix::net::send(&self.line, &[code], rustix::net::SendFlags::NOSIGNAL);
    }

    /// Stops the supervisor because the program stopped, so that a shell sees the job as stopped.
    pub(super) fn stop(&self) {
        if self.is_alive() {
            sys::kill(self.pid, libc::SIGSTOP);
        }
    }

    /// Continues the supervisor because the program continues.
    pub(super) fn go_on(&self) {
        if self.is_alive() {
            sys::kill(self.pid, libc::SIGCONT);
        }
    }

    /// Returns true if the supervisor still runs. After it ended, its process id may belong to
    /// another process.
    fn is_alive(&self) -> bool {
        // When the parent ends, the kernel gives the child another parent, so the id differs.
        // SAFETY: getppid takes nothing.
        unsafe { libc::getppid() == self.pid }
    }
}

/// Runs the supervisor: forwards signals until the tracer releases it or ends. A terminal's signals
/// reach the tracer and the program directly, because they share a process group.
fn supervise(tracer: Pid, line: &OwnedFd) -> ! {
    let _forwarding = signals::forward_to(tracer);
    let mut code = [0u8];
    let received = loop {
        match rustix::net::recv(line, &mut code[..], rustix::net::RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received,
        }
    };
    let code = match received {
        Ok((1, _)) => code[0],
        // The other end of the socket is closed, so the tracer has ended.
        _ => exit_code_of(tracer),
    };
    // SAFETY: `_exit` runs no destructor and flushes no buffer of this process.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Waits for the tracer to end and returns its exit code.
fn exit_code_of(tracer: Pid) -> u8 {
    match stopped::wait(Some(tracer)) {
        Ok(Waited::End(_, end)) => end.code().unwrap_or(0),
        // With `SIGCHLD` ignored the kernel keeps no status (`ECHILD`, wait(2)).
        _ => 2,
    }
}
