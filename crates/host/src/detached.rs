//! Runs work in a process that is independent of the caller.
//!
//! The process is not a child of the caller (an intermediate process exits at once). It has a
//! session of its own, runs in `/`, and inherits only the descriptors that it is given.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::inherited::survive_size_limit;
use rustix::process::{Pid, WaitOptions, waitpid};

/// Number of the first inherited descriptor, after stdin, stdout and stderr.
const INHERITED: i32 = 3;

/// Runs `work` in a process of its own, which inherits `keep`. Call this while the process has one
/// thread.
///
/// # Errors
/// Returns an error if no process can be created. If this process is the first of its PID namespace or a
/// subreaper, an orphan would become its child again: none is created.
#[allow(unsafe_code, reason = "std can start no process that is nobody's child")]
pub fn detached<const N: usize>(
    keep: [&OwnedFd; N],
    work: impl FnOnce([OwnedFd; N]),
) -> io::Result<()> {
    if adopts_orphans() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the process has one thread, so no lock is held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; the calls take no pointers.
            unsafe {
                // In a session of its own the work gets no signals from the terminal.
                libc::setsid();
                // The work becomes an orphan at once, so the program has no child that it did not
                // start.
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
            }
            let keep = close_all_but(keep);
            survive_size_limit();
            if let Some(keep) = keep {
                work(keep);
            }
            // SAFETY: `_exit` runs no destructor of the parent.
            unsafe { libc::_exit(0) }
        }
        intermediate => {
            // If SIGCHLD is ignored, waitpid fails at once, and no zombie remains.
            let wait = || waitpid(Pid::from_raw(intermediate), WaitOptions::empty());
            let _ = rustix::io::retry_on_intr(wait);
            Ok(())
        }
    }
}

/// Gives this thread the lowest priority.
#[allow(unsafe_code, reason = "the call has no safe form")]
pub fn lower_priority() {
    // SAFETY: the call takes a number.
    unsafe { libc::nice(19) };
}

#[allow(unsafe_code, reason = "the flag has no safe form")]
fn adopts_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: the kernel writes the flag to a variable of that type.
    unsafe {
        libc::getpid() == 1
            || (libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) == 0
                && is_subreaper != 0)
    }
}

/// Closes all descriptors except `keep`, which get the numbers from [`INHERITED`] on. Returns `None` if
/// that fails.
#[allow(unsafe_code, reason = "descriptors are closed whoever owns them")]
fn close_all_but<const N: usize>(keep: [&OwnedFd; N]) -> Option<[OwnedFd; N]> {
    let after = INHERITED + N as i32;
    // SAFETY: the child uses only the parent's memory after this. The calls check the descriptor
    // numbers.
    unsafe {
        // First out of the way of each other.
        let moved = keep.map(|fd| libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, after));
        for (number, fd) in (INHERITED..).zip(moved) {
            if fd < 0 || libc::dup3(fd, number, libc::O_CLOEXEC) < 0 {
                return None;
            }
        }
        if libc::syscall(libc::SYS_close_range, after, libc::c_uint::MAX, 0) != 0 {
            // Linux before 5.9 has no close_range.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(64, 1 << 16) as i32;
            (after..most).for_each(|fd| {
                libc::close(fd);
            });
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            return None;
        }
        // A library that writes to stdout or stderr must not write into the inherited file.
        (0..INHERITED).for_each(|fd| {
            libc::dup2(null, fd);
        });
        libc::close(null);
        // The work must not keep the file system of the current directory from being unmounted.
        libc::chdir(c"/".as_ptr());
        libc::umask(0o022);
        let mut number = INHERITED - 1;
        Some(keep.map(|_| {
            number += 1;
            OwnedFd::from_raw_fd(number)
        }))
    }
}
