//! Forwards signals to the traced program. A terminal's signals reach the program directly; signals
//! sent to the tracer by another process are forwarded.

use std::sync::atomic::{AtomicI32, Ordering};

use super::sys::Pid;

/// The process that receives the signals; 0 for none.
static TARGET: AtomicI32 = AtomicI32::new(0);

/// Signals that would end or stop the tracer, or that a program may wait for.
const FORWARDED: [i32; 11] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
];

/// Forwards signals until it is dropped.
#[derive(Debug)]
pub(super) struct Forwarding {
    before: Vec<(i32, libc::sighandler_t)>,
}

/// Forwards signals to `pid`. An ignored signal (`nohup`) stays ignored. Only one run of a process
/// forwards signals at a time, because handlers belong to the process.
pub(super) fn forward_to(pid: Pid) -> Forwarding {
    let free = TARGET.compare_exchange(0, pid, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    let mut before = Vec::new();
    for signal in FORWARDED.into_iter().filter(|_| free) {
        if let Some(old) = replace(signal, handler as *const () as libc::sighandler_t) {
            if old == libc::SIG_IGN {
                replace(signal, libc::SIG_IGN);
            } else {
                before.push((signal, old));
            }
        }
    }
    Forwarding { before }
}

impl Forwarding {
    /// Stops forwarding because the program has ended. The handlers stay installed, so the signals
    /// do not end this process while it serves the program's children.
    pub(super) fn program_ended(&self) {
        if !self.before.is_empty() {
            // Not 0: another run must not install handlers while these are in place.
            TARGET.store(-1, Ordering::SeqCst);
        }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            for (signal, old) in &self.before {
                replace(*signal, *old);
            }
            // Last: a run that starts earlier would lose its handlers to the loop above.
            TARGET.store(0, Ordering::SeqCst);
        }
    }
}

/// Sets a signal's handler and returns the previous one.
#[allow(unsafe_code, reason = "handlers have no safe form")]
fn replace(signal: i32, handler: libc::sighandler_t) -> Option<libc::sighandler_t> {
    // SAFETY: zeros are valid for both structs, which consist of integers. The handler is a
    // constant or a function with the signature that SA_SIGINFO requires.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        // `SA_RESTART` keeps forwarded signals from interrupting the calls of this process with
        // `EINTR`.
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &new, &mut old) == 0).then_some(old.sa_sigaction)
    }
}

/// Forwards a signal that a process sent. The kernel sends a terminal's ^C and ^Z to the whole
/// process group, which includes the program. A signal that the program sends to the tracer is not
/// forwarded back.
#[allow(unsafe_code, reason = "a signal handler reads what the kernel hands it")]
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: under SA_SIGINFO the kernel passes a valid siginfo. `kill` and the address of errno
    // are safe to use in a signal handler.
    unsafe {
        let target = TARGET.load(Ordering::SeqCst);
        // A positive si_code (SI_KERNEL among them) marks a signal that the kernel sent.
        let by_a_process = (*info).si_code <= 0;
        if target > 0 && by_a_process && (*info).si_pid() != target {
            let errno = *libc::__errno_location();
            // The interrupted code may be about to read errno.
            libc::kill(target, signal);
            *libc::__errno_location() = errno;
        }
    }
}
