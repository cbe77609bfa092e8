//! The process before the tracer: see [`Front`].

#![allow(unsafe_code, reason = "fork, sigwaitinfo and _exit have no safe form")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::sys::{self, Pid};

/// The process that the user started, when the tracer is a child of it. It passes
/// signals on, stops and goes on as the program does, and ends with its exit code;
/// killing it ends neither program nor tracer.
#[derive(Clone, Debug)]
pub struct Front {
    pid: Pid,
    line: Arc<OwnedFd>,
}

impl Front {
    /// Forks; returns in the child. The parent stays in here and exits with the code
    /// that [`Front::release`] names, or with that of the child. To be called before any
    /// thread is started.
    ///
    /// # Errors
    /// No process could be made; the caller goes on without.
    pub fn enter() -> io::Result<Front> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        // SAFETY: getpid takes nothing.
        let pid = unsafe { libc::getpid() };
        // From before the fork on: no signal may be lost, and none end the front.
        let before = block_all();
        // SAFETY: the caller has no other thread, so that the child is a whole process.
        match unsafe { libc::fork() } {
            -1 => {
                let error = io::Error::last_os_error();
                restore(&before);
                Err(error)
            }
            0 => {
                drop(ours);
                restore(&before);
                Ok(Front { pid, line: Arc::new(theirs) })
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
        if self.is_there() {
            sys::kill(self.pid, libc::SIGCHLD);
        }
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

fn block_all() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both calls fill the sets they are given; neither can fail with a valid
    // `how`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: a set that was read before is set again.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// The life of the front: takes signals one by one until the tracer lets it go or ends.
fn stand_before(tracer: Pid, line: &OwnedFd) -> ! {
    loop {
        if let Some(code) = released(line).or_else(|| ended(tracer)) {
            // SAFETY: nothing of this process is to be run or written any more.
            unsafe { libc::_exit(i32::from(code)) };
        }
        let Some((signal, by_a_process, sender)) = next_signal() else { continue };
        let to_hand_on = !matches!(signal, libc::SIGCHLD | libc::SIGPIPE);
        // What a terminal sends reaches the tracer and the program by itself.
        if to_hand_on && by_a_process && sender != tracer {
            sys::kill(tracer, signal);
        }
    }
}

/// Waits for a signal: number, whether a process sent it, and which.
fn next_signal() -> Option<(i32, bool, Pid)> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: the set is filled before it is used; the info is written where a signal
    // is given, and its sender is read for those a process sent.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        let signal = libc::sigwaitinfo(all.as_ptr(), info.as_mut_ptr());
        if signal <= 0 {
            return None;
        }
        let info = info.assume_init();
        let by_a_process = info.si_code <= 0;
        Some((signal, by_a_process, if by_a_process { info.si_pid() } else { 0 }))
    }
}

fn released(line: &OwnedFd) -> Option<u8> {
    let mut code = 0u8;
    // SAFETY: one byte is read to where there is one.
    let read =
        unsafe { libc::recv(line.as_raw_fd(), (&raw mut code).cast(), 1, libc::MSG_DONTWAIT) };
    (read == 1).then_some(code)
}

/// The code of the tracer, once it has ended.
fn ended(tracer: Pid) -> Option<u8> {
    let mut status = 0;
    // SAFETY: one status is written to where there is one.
    let pid = unsafe { libc::waitpid(tracer, &raw mut status, libc::WNOHANG) };
    if pid == 0 {
        return None;
    }
    if libc::WIFSIGNALED(status) {
        return Some(128u8.saturating_add(libc::WTERMSIG(status) as u8));
    }
    Some(libc::WEXITSTATUS(status) as u8)
}
