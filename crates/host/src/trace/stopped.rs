//! A stopped task as a type: only it can be asked, and resuming consumes it, so that a
//! request to a running task does not compile.

use std::io;

use bstr::BString;

use super::sys::{self, Pid, Request, SyscallInfo};

/// A task that is stopped and stays so until it is resumed.
#[derive(Debug)]
#[must_use = "a stopped task stands still until it is resumed"]
pub(super) struct Stopped {
    pid: Pid,
}

/// What a wait gave.
#[derive(Debug)]
pub(super) enum Waited {
    /// A task stopped.
    Stop(Stopped, Why),
    /// A task ended.
    End(Pid, End),
}

/// How a task ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// Why a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The filter names the call it is about to make.
    Filter,
    /// A call begins or ends.
    Call,
    /// It made a process or thread.
    Birth,
    /// `execve` succeeded.
    Exec,
    /// It was stopped with its whole process, by this signal.
    Group(i32),
    /// It has just been attached, or its process goes on after a stop.
    Attention,
    /// It is about to get this signal.
    Signal(i32),
}

/// How a task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The next call the filter names.
    Filter,
    /// The beginning or end of the next call.
    Call,
}

/// The longest path the kernel takes.
const PATH_MAX: usize = 4096;

/// Waits for any task of this thread, or for one.
pub(super) fn wait(only: Option<Pid>) -> io::Result<Waited> {
    let (pid, status) = sys::wait(only)?;
    if libc::WIFEXITED(status) {
        let code = libc::WEXITSTATUS(status) as u8;
        return Ok(Waited::End(pid, End::Code(code)));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Waited::End(pid, End::Signal(libc::WTERMSIG(status))));
    }
    let signal = libc::WSTOPSIG(status);
    let why = match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Why::Filter,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Why::Birth,
        libc::PTRACE_EVENT_EXEC => Why::Exec,
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Why::Attention,
        libc::PTRACE_EVENT_STOP => Why::Group(signal),
        0 if signal == libc::SIGTRAP | 0x80 => Why::Call,
        0 => Why::Signal(signal),
        _ => Why::Attention,
    };
    Ok(Waited::Stop(Stopped { pid }, why))
}

/// Attaches to a running task, which goes on running, and to all it will start.
pub(super) fn seize(pid: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACESECCOMP;
    sys::ptrace(Request::Seize, pid, 0, options as u64)
}

/// Asks a running task to stop; one that has ended cannot and need not.
pub(super) fn interrupt(pid: Pid) {
    let _ = sys::ptrace(Request::Interrupt, pid, 0, 0);
}

impl Stopped {
    /// Its id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The system call it is at.
    pub(super) fn call(&self) -> io::Result<SyscallInfo> {
        sys::syscall_info(self.pid)
    }

    /// After [`Why::Exec`], the id the task had before.
    pub(super) fn former_id(&self) -> Option<Pid> {
        Pid::try_from(sys::event_message(self.pid).ok()?).ok()
    }

    /// Bytes of its memory, as many as there are from `addr` on.
    pub(super) fn read(&self, addr: u64, into: &mut [u8]) -> usize {
        if let Ok(read) = sys::read_memory(self.pid, addr, into) {
            return read;
        }
        let mut read = 0;
        for chunk in into.chunks_mut(8) {
            let Ok(word) = sys::peek(self.pid, addr.wrapping_add(read as u64)) else { break };
            chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
            read += chunk.len();
        }
        read
    }

    /// The string at `addr`, up to its NUL, as long as a path may be; no longer than
    /// what can be read. Read page by page: the next page may not be there.
    pub(super) fn string(&self, addr: u64) -> BString {
        const PAGE: u64 = 4096;
        const BITE: usize = 256;
        let mut text = Vec::new();
        let mut buffer = [0u8; BITE];
        while text.len() < PATH_MAX {
            let from = addr.wrapping_add(text.len() as u64);
            // The peek that stands in for a forbidden read is slow: small bites.
            let mount_namespace = (PAGE - from % PAGE).min(BITE as u64) as usize;
            let read = self.read(from, &mut buffer[..mount_namespace]);
            let end = buffer[..read].iter().position(|byte| *byte == 0);
            text.extend_from_slice(&buffer[..end.unwrap_or(read)]);
            if end.is_some() || read == 0 {
                break;
            }
        }
        text.truncate(PATH_MAX);
        text.into()
    }

    /// Overwrites a word of its memory, read-only or not.
    pub(super) fn poke(&self, addr: u64, word: u64) -> io::Result<()> {
        sys::ptrace(Request::PokeText, self.pid, addr, word)
    }

    /// Overwrites a word of its `struct user`: a register.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn poke_user(&self, offset: u64, word: u64) -> io::Result<()> {
        sys::ptrace(Request::PokeUser, self.pid, offset, word)
    }

    /// Lets it go on, with a signal or with none (0). One that was killed meanwhile
    /// will say so by its end.
    pub(super) fn resume(self, until: Until, signal: i32) {
        let request = match until {
            Until::Filter => Request::Cont,
            Until::Call => Request::Syscall,
        };
        let _ = sys::ptrace(request, self.pid, 0, signal as u64);
    }

    /// Leaves it in the stop of its whole process until that ends.
    pub(super) fn listen(self) {
        let _ = sys::ptrace(Request::Listen, self.pid, 0, 0);
    }

    /// Lets it go on, no longer watched.
    pub(super) fn detach(self, signal: i32) {
        let _ = sys::ptrace(Request::Detach, self.pid, 0, signal as u64);
    }
}
