//! Signals, standard streams and environment as this process inherited them.
//!
//! Before `main`, Rust's runtime ignores `SIGPIPE` and opens `/dev/null` for standard streams that
//! are closed. A program that is started in this process's place gets both as they were, and the
//! environment entry by entry.

#![allow(unsafe_code, reason = "dispositions and descriptors have no safe form")]

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit N is set if standard stream N was closed. [`PIPE_IGNORED`] is set if `SIGPIPE` was ignored,
/// [`SIZE_ENDS`] if `SIGXFSZ` had its default and is ignored now.
static INHERITED: AtomicU8 = AtomicU8::new(0);
const PIPE_IGNORED: u8 = 1 << 3;
const SIZE_ENDS: u8 = 1 << 4;

/// Called with the constructors, before Rust's runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let mut inherited = 0;
    // SAFETY: queries with valid arguments. `action` is written by a call that succeeds.
    unsafe {
        let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
        if libc::poll(streams.as_mut_ptr(), 3, 0) > 0 {
            for stream in streams.iter().filter(|stream| stream.revents & libc::POLLNVAL != 0) {
                inherited |= 1 << stream.fd;
            }
        }
        let mut action = std::mem::zeroed::<libc::sigaction>();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
        {
            inherited |= PIPE_IGNORED;
        }
    }
    INHERITED.store(inherited, Ordering::Relaxed);
}

/// Lets this process write on if a file reaches the limit of sizes (`ulimit -f`): the write fails with
/// `EFBIG`.
pub fn survive_size_limit() {
    // SAFETY: a disposition without a handler.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_DFL {
        INHERITED.fetch_or(SIZE_ENDS, Ordering::Relaxed);
    }
}

/// Restores what was inherited. May be called between `fork` and `execve`.
pub(crate) fn restore() {
    let inherited = INHERITED.load(Ordering::Relaxed);
    let is_ignored = inherited & PIPE_IGNORED != 0;
    // SAFETY: system calls alone. The descriptors are those that the runtime opened.
    unsafe {
        libc::signal(libc::SIGPIPE, if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        if inherited & SIZE_ENDS != 0 {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        }
        for stream in 0..3 {
            if inherited & 1 << stream != 0 {
                libc::close(stream);
            }
        }
    }
}

/// Sets variables, leaves every other entry of the environment as it is, and executes a program in
/// this process. Returns only if that fails.
///
/// No other thread may be running.
#[must_use]
pub fn execute<'a>(
    mut command: Command,
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> io::Error {
    for (name, value) in variables {
        // SAFETY: no other thread reads the environment. A name that occurs twice is removed first.
        unsafe {
            std::env::remove_var(name);
            std::env::set_var(name, value);
        }
    }
    // `Command` restores the default of SIGPIPE.
    if INHERITED.load(Ordering::Relaxed) != 0 {
        // SAFETY: the function makes system calls alone.
        unsafe {
            command.pre_exec(|| {
                restore();
                Ok(())
            });
        }
    }
    command.exec()
}
