//! The process before the tracer: see [`Supervisor`].

#![allow(unsafe_code, reason = "fork, waitpid and _exit have no safe form")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::signals;
use super::sys::{self, Pid};

/// The process that the user started, when the tracer is a child of it. It passes
/// signals on, stops and goes on as the program does, and ends with its exit code;
/// killing it ends neither program nor tracer.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pid: Pid,
    line: Arc<OwnedFd>,
}

impl Supervisor {
    /// Forks; returns in the child. The parent stays in here and exits with the code
    /// that [`Supervisor::release`] names, or with that of the child. To be called before any
    /// thread is started.
    ///
    /// # Errors
    /// No process could be made; the caller goes on without.
    pub fn enter() -> io::Result<Supervisor> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        // SAFETY: getpid takes nothing.
        let pid = unsafe { libc::getpid() };
        // SAFETY: the caller has no other thread, so that the child is a whole process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                Ok(Supervisor { pid, line: Arc::new(theirs) })
            }
            tracer => {
                drop(theirs);
                stand_before(tracer, &ours)
            }
        }
    }

    /// Lets the front exit with this code now, while this process goes on (to serve what
    /// is left, see [`super::Rest`]).
    pub fn release(&self, code: u8) {
        // A front that is gone needs no code.
        let _ = rustix::net::send(&self.line, &[code], rustix::net::SendFlags::NOSIGNAL);
    }

    /// The program was stopped: a shell is to see that.
    pub(super) fn stop(&self) {
        if self.is_there() {
            sys::kill(self.pid, libc::SIGSTOP);
        }
    }

    /// The program goes on.
    pub(super) fn go_on(&self) {
        if self.is_there() {
            sys::kill(self.pid, libc::SIGCONT);
        }
    }

    /// False once the front is gone: its id may be another's by then.
    fn is_there(&self) -> bool {
        // SAFETY: getppid takes nothing.
        unsafe { libc::getppid() == self.pid }
    }
}

/// The life of the front: hands signals on until the tracer lets it go or ends. What a
/// terminal sends reaches the tracer and the program by itself.
fn stand_before(tracer: Pid, line: &OwnedFd) -> ! {
    let _handing_on = signals::hand_on(tracer);
    let mut code = [0u8];
    let said = loop {
        match rustix::net::recv(line, &mut code[..], rustix::net::RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            said => break said,
        }
    };
    let code = match said {
        Ok((1, _)) => code[0],
        // The line's other end is gone, and with it the tracer.
        _ => code_of(tracer),
    };
    // SAFETY: nothing of this process is to be run or written any more.
    unsafe { libc::_exit(i32::from(code)) }
}

/// The code of the tracer, which has ended or is about to.
fn code_of(tracer: Pid) -> u8 {
    let mut status = 0;
    loop {
        // SAFETY: one status is written to where there is one.
        let pid = unsafe { libc::waitpid(tracer, &raw mut status, 0) };
        if pid == tracer {
            break;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return 2;
        }
    }
    if libc::WIFSIGNALED(status) {
        return 128u8.saturating_add(libc::WTERMSIG(status) as u8);
    }
    libc::WEXITSTATUS(status) as u8
}
