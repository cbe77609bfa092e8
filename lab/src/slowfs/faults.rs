//! Requests that fail, as those to a server that is gone.

use std::fs;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use fuser::{Errno, Request};

/// Time between two looks at the process that waits for an answer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Bit of SIGKILL in a set of signals.
const KILLED: u64 = 1 << 8;

/// An error of a network's file system.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Failure {
    /// The server cannot read its disk, or does not answer a soft mount
    Eio,
    /// The server does not know the file any more
    Estale,
    /// The server denies access
    Eacces,
    /// The server does not answer; the process that waits can be killed
    Hang,
}

/// Reason why a request has no result.
#[derive(Debug)]
pub(super) enum Refused {
    With(Errno),
    /// No answer until the process that waits for it is killed.
    Never,
}

impl<E: Into<Errno>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::With(error.into())
    }
}

impl Failure {
    /// Returns the result of a request that fails.
    pub(super) fn refused(self) -> Refused {
        match self {
            Self::Eio => Errno::EIO.into(),
            Self::Estale => Errno::ESTALE.into(),
            Self::Eacces => Errno::EACCES.into(),
            Self::Hang => Refused::Never,
        }
    }
}

/// Answers a request with its result or with its error. A request that hangs is answered after its process
/// was killed.
pub(super) fn answer<T, R: Send + 'static>(
    request: &Request,
    result: Result<T, Refused>,
    reply: R,
    send_error: fn(R, Errno),
    send: impl FnOnce(R, T),
) {
    match result {
        Ok(value) => send(reply, value),
        Err(Refused::With(errno)) => send_error(reply, errno),
        Err(Refused::Never) => {
            let thread = request.pid();
            // A thread of its own, because those that serve have other requests to answer.
            thread::spawn(move || {
                while !is_killed(thread) {
                    thread::sleep(BETWEEN_LOOKS);
                }
                send_error(reply, Errno::EINTR);
            });
        }
    }
}

/// Returns whether a thread has ended, or waits only for this answer to end.
///
/// The kernel lets no process go whose request has been read, and fuser does not pass the kernel's
/// interrupts on.
fn is_killed(thread: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{thread}/status")) else { return true };
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    pending.is_some_and(|set| u64::from_str_radix(set.trim(), 16).unwrap_or(0) & KILLED != 0)
}
