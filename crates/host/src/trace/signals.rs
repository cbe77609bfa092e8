//! Signals while a program is watched: those a terminal sends reach the program by
//! themselves, those somebody sends to the tracer are handed on.

use std::sync::atomic::{AtomicI32, Ordering};

use super::sys::Pid;

/// The process that signals are handed on to; 0 for none.
static TARGET: AtomicI32 = AtomicI32::new(0);

/// Signals that would end or stop the tracer, or that a program may wait for.
const HANDED_ON: [i32; 11] = [
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

/// While it lives, signals are handed on.
#[derive(Debug)]
pub(super) struct HandingOn {
    before: Vec<(i32, libc::sighandler_t)>,
}

/// Hands signals on to `pid`. A signal that is ignored (`nohup`) stays ignored. Only
/// one run of a process does this at a time: signals belong to the process.
pub(super) fn hand_on(pid: Pid) -> HandingOn {
    let free = TARGET.compare_exchange(0, pid, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    let mut before = Vec::new();
    for signal in HANDED_ON.into_iter().filter(|_| free) {
        if let Some(old) = replace(signal, handler as *const () as libc::sighandler_t) {
            if old == libc::SIG_IGN {
                replace(signal, libc::SIG_IGN);
            } else {
                before.push((signal, old));
            }
        }
    }
    quiet_stops(free);
    HandingOn { before }
}

impl HandingOn {
    /// The program is gone: there is nobody to hand signals on to, and they shall no
    /// longer end the process that serves its children.
    pub(super) fn program_ended(&self) {
        if !self.before.is_empty() {
            TARGET.store(-1, Ordering::SeqCst);
        }
    }
}

impl Drop for HandingOn {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            for (signal, old) in &self.before {
                replace(*signal, *old);
            }
            quiet_stops(false);
            TARGET.store(0, Ordering::SeqCst);
        }
    }
}

/// Sets a signal's handler and gives the one before.
#[allow(unsafe_code, reason = "handlers have no safe form")]
fn replace(signal: i32, handler: libc::sighandler_t) -> Option<libc::sighandler_t> {
    // SAFETY: both structs are numbers all through, for which zeros are valid; the
    // handler given is a function of the signature SA_SIGINFO asks for, or a constant.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &new, &mut old) == 0).then_some(old.sa_sigaction)
    }
}

/// Whether the kernel shall leave out the signal about each stop of a child: the tracer
/// waits for stops anyway, and a signal that nobody wants still takes its time. Whoever
/// handles `SIGCHLD` keeps what was asked for.
#[allow(unsafe_code, reason = "dispositions have no safe form")]
fn quiet_stops(quiet: bool) {
    // SAFETY: the struct is numbers all through, for which zeros are valid, and is
    // filled by the first call; the second changes a flag of a default disposition.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) == 0;
        if known && action.sa_sigaction == libc::SIG_DFL {
            action.sa_flags = if quiet { libc::SA_NOCLDSTOP } else { 0 };
            libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut());
        }
    }
}

/// Hands a signal on that a process sent. The kernel's own (a terminal's ^C, ^Z) went
/// to the whole process group, program included; what the program sends us is not meant
/// for itself.
#[allow(unsafe_code, reason = "a signal handler reads what the kernel hands it")]
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: under SA_SIGINFO the kernel hands a valid siginfo; `kill` and errno's
    // address may be used in handlers.
    unsafe {
        let target = TARGET.load(Ordering::SeqCst);
        let by_a_process = (*info).si_code <= 0;
        if target > 0 && by_a_process && (*info).si_pid() != target {
            let errno = *libc::__errno_location();
            libc::kill(target, signal);
            *libc::__errno_location() = errno;
        }
    }
}
