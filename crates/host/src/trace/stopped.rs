//! Represents a stopped task as a type. Only a [`Stopped`] can be inspected, and resuming it
//! consumes it, so a request to a running task does not compile.

use std::io;

use bstr::BString;

use super::exit::Exit;
use super::sys::{self, Pid, Request, SyscallInfo};

/// A task that is stopped until it is resumed.
#[derive(Debug)]
#[must_use = "a stopped task stands still until it is resumed"]
pub(super) struct Stopped {
    pub(super) pid: Pid,
}

/// The result of a wait.
#[derive(Debug)]
pub(super) enum Waited {
    /// A task stopped.
    Stop(Stopped, Why),
    /// A task ended.
    End(Pid, Exit),
}

/// Reason for a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A call begins or ends: one that the filter names, or any.
    Call,
    /// The task created a process or a thread.
    Birth,
    /// `execve` succeeded.
    Exec,
    /// This signal stopped the task's whole process.
    Group(i32),
    /// The task has just been attached, or its process continues after a stop.
    Attention,
    /// The kernel is about to deliver this signal to the task.
    Signal(i32),
}

/// The next stop of a resumed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The next call that the filter names.
    Filter,
    /// The beginning or end of the next call.
    Call,
}

/// The longest path that the kernel accepts.
const PATH_MAX: usize = 4096;

/// Waits for any task traced by this thread, or for one.
pub(super) fn wait(only: Option<Pid>) -> io::Result<Waited> {
    let (pid, status) = sys::wait(only)?;
    if libc::WIFEXITED(status) {
        let code = libc::WEXITSTATUS(status) as u8;
        return Ok(Waited::End(pid, Exit::Code(code)));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Waited::End(pid, Exit::Signal(libc::WTERMSIG(status))));
    }
    let signal = libc::WSTOPSIG(status);
    // With PTRACE_O_TRACESYSGOOD, bit 7 of SIGTRAP marks a stop at a call; event stops put the
    // event into the bits above the signal.
    let why = match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Why::Call,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Why::Birth,
        libc::PTRACE_EVENT_EXEC => Why::Exec,
        // A group stop has the signal that caused it. `SIGTRAP` marks an attach, an interrupt or a
        // `SIGCONT` (ptrace(2), "PTRACE_EVENT_STOP").
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Why::Attention,
        libc::PTRACE_EVENT_STOP => Why::Group(signal),
        0 if signal == libc::SIGTRAP | 0x80 => Why::Call,
        0 => Why::Signal(signal),
        _ => Why::Attention,
    };
    Ok(Waited::Stop(Stopped { pid }, why))
}

/// Attaches to a running task and, if `follows`, to every task that it will create. The task keeps running.
pub(super) fn seize(pid: Pid, follows: bool) -> io::Result<()> {
    // `PTRACE_O_EXITKILL` is left out, because the end of the tracer must not kill the program.
    let options =
        libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESECCOMP;
    let births = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
    let options = if follows { options | births } else { options };
    sys::ptrace(Request::Seize, pid, 0, options as u64)
}

/// Requests a stop of a running task. A task that has ended cannot stop and needs no request.
pub(super) fn interrupt(pid: Pid) {
    let _ = sys::ptrace(Request::Interrupt, pid, 0, 0);
}

impl Stopped {
    /// Returns the system call at which the task stopped.
    pub(super) fn call(&self) -> io::Result<SyscallInfo> {
        sys::syscall_info(self.pid)
    }

    /// Returns the id that the task had before [`Why::Exec`].
    pub(super) fn former_id(&self) -> Option<Pid> {
        Pid::try_from(sys::event_message(self.pid).ok()?).ok()
    }

    /// Reads memory of the task from `addr` on and returns the number of bytes read.
    pub(super) fn read(&self, addr: u64, into: &mut [u8]) -> usize {
        if let Ok(read) = sys::read_memory(self.pid, addr, into) {
            return read;
        }
        // A process that is not dumpable forbids process_vm_readv, but a tracer may still peek.
        let mut read = 0;
        for chunk in into.chunks_mut(8) {
            let Ok(word) = sys::peek(self.pid, addr.wrapping_add(read as u64)) else { break };
            chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
            read += chunk.len();
        }
        read
    }

    /// Reads the string at `addr` up to its NUL, at most `PATH_MAX` bytes and at most as many as
    /// are readable. Reads do not cross a page, because the next page may be unmapped.
    pub(super) fn string(&self, addr: u64) -> BString {
        const PAGE: u64 = 4096;
        const BITE: usize = 256;
        let mut text = Vec::new();
        let mut buffer = [0u8; BITE];
        while text.len() < PATH_MAX {
            let from = addr.wrapping_add(text.len() as u64);
            // `peek` reads eight bytes a call, so short reads avoid fetching far beyond the NUL.
            let size = (PAGE - from % PAGE).min(BITE as u64) as usize;
            let read = self.read(from, &mut buffer[..size]);
            let end = buffer[..read].iter().position(|byte| *byte == 0);
            text.extend_from_slice(&buffer[..end.unwrap_or(read)]);
            if end.is_some() || read == 0 {
                break;
            }
        }
        text.truncate(PATH_MAX);
        text.into()
    }

    /// Overwrites a word of the task's memory, including read-only memory.
    pub(super) fn poke(&self, addr: u64, word: u64) -> io::Result<()> {
        sys::ptrace(Request::PokeText, self.pid, addr, word)
    }

    /// Resumes the task and delivers `signal`, or none if it is 0. If the task was killed
    /// meanwhile, the next wait reports its end.
    pub(super) fn resume(self, until: Until, signal: i32) {
        let request = match until {
            Until::Filter => Request::Cont,
            Until::Call => Request::Syscall,
        };
        let _ = sys::ptrace(request, self.pid, 0, signal as u64);
    }

    /// Lets the task go on as without a tracer: it gets its signal, and stays stopped with its process.
    pub(super) fn pass(self, why: Why, until: Until) {
        match why {
            Why::Signal(signal) => self.resume(until, signal),
            Why::Group(_) => self.listen(),
            _ => self.resume(until, 0),
        }
    }

    /// Leaves the task stopped until its whole process continues.
    pub(super) fn listen(self) {
        // `PTRACE_CONT` would end the group stop for this task, and job control would not work.
        let _ = sys::ptrace(Request::Listen, self.pid, 0, 0);
    }

    /// Resumes the task and stops tracing it.
    pub(super) fn detach(self, signal: i32) {
        let _ = sys::ptrace(Request::Detach, self.pid, 0, signal as u64);
    }
}
