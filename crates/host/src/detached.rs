//! Work in a process that the caller has nothing to do with any more.
//!
//! The process is no child of the caller (a process between them ends at once), has a session of
//! its own, runs at the lowest priority in `/`, and has no descriptor of the caller's but the one
//! it is given.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Descriptors below this are stdin, stdout and stderr; the one that is handed over comes next.
const FIRST: i32 = 3;

/// Whether the work was handed to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// Yes.
    Yes,
    /// No: an orphan of this process would become its child again, for it is the first process of
    /// its PID namespace, or a subreaper.
    WouldBeAChild,
}

/// Does `work` in a process of its own, which holds `keep`. To be called while the process has one
/// thread.
///
/// # Errors
/// If no process can be made.
#[allow(unsafe_code, reason = "std can start no process that is nobody's child")]
pub fn detached(keep: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<Detached> {
    if adopts_orphans() {
        return Ok(Detached::WouldBeAChild);
    }
    // SAFETY: with one thread the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; none of the calls has a condition.
            unsafe {
                libc::setsid();
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
            }
            let keep = leave_everything(&keep);
            if let Some(keep) = keep {
                work(keep);
            }
            // SAFETY: no destructor of the parent's is to run here.
            unsafe { libc::_exit(0) }
        }
        between => {
            let mut status = 0;
            // SAFETY: the status is a place to write to. If SIGCHLD is ignored there is nothing to
            // wait for, which is fine as well.
            while unsafe { libc::waitpid(between, &raw mut status, 0) } == -1
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            Ok(Detached::Yes)
        }
    }
}

#[allow(unsafe_code, reason = "the flag has no safe form")]
fn adopts_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: the flag is a place to write to.
    unsafe {
        libc::getpid() == 1
            || (libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) == 0
                && is_subreaper != 0)
    }
}

/// Closes all but `keep`, which gets another number; `None` if that cannot be done.
#[allow(unsafe_code, reason = "descriptors are closed whoever owns them")]
fn leave_everything(keep: &OwnedFd) -> Option<OwnedFd> {
    // SAFETY: nothing of the parent's is used after this but memory; the numbers are valid or the
    // calls fail.
    unsafe {
        let moved = libc::dup3(keep.as_raw_fd(), FIRST, libc::O_CLOEXEC);
        if moved != FIRST && keep.as_raw_fd() != FIRST {
            return None;
        }
        if libc::syscall(libc::SYS_close_range, FIRST + 1, libc::c_uint::MAX, 0) != 0 {
            // Before Linux 5.9.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(64, 1 << 16) as i32;
            (FIRST + 1..most).for_each(|fd| {
                libc::close(fd);
            });
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            return None;
        }
        (0..FIRST).for_each(|fd| {
            libc::dup2(null, fd);
        });
        libc::close(null);
        libc::chdir(c"/".as_ptr());
        libc::umask(0o022);
        libc::nice(19);
        Some(OwnedFd::from_raw_fd(FIRST))
    }
}
