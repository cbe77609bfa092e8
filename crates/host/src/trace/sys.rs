//! Wraps the tracer's system calls, each with the one `unsafe` block that it needs. All take
//! process ids as integers; [`super::stopped`] makes their use safe.

#![allow(unsafe_code, reason = "ptrace and process_vm_readv have no safe form")]

use std::io;

use rustix::process::{WaitOptions, waitpid};

/// A process or thread id.
pub(super) type Pid = libc::pid_t;

/// `PTRACE_GET_SYSCALL_INFO` of `<linux/ptrace.h>`, Linux 5.3.
const PTRACE_GET_SYSCALL_INFO: i64 = 0x420e;

/// Requests without a result, by their numbers in `<linux/ptrace.h>`.
#[derive(Clone, Copy, Debug)]
#[repr(i64)]
pub(super) enum Request {
    PokeText = 4,
    #[cfg(target_arch = "x86_64")]
    PokeUser = 6,
    Cont = 7,
    Detach = 17,
    Syscall = 24,
    Seize = 0x4206,
    Interrupt = 0x4207,
    Listen = 0x4208,
}

/// Calls `ptrace` with a request that takes two integers.
pub(super) fn ptrace(request: Request, pid: Pid, addr: u64, data: u64) -> io::Result<()> {
    // SAFETY: these requests take integers and write nothing in this process. They change only the
    // traced one.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, request as i64, pid, addr, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct ptrace_syscall_info`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    /// `AUDIT_ARCH_*`.
    pub(super) arch: u32,
    /// Address after the instruction that made the call.
    pub(super) instruction_pointer: u64,
    stack_pointer: u64,
    body: [u64; 8],
}

/// The system call at which a task stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum AtCall {
    /// The call is about to be made.
    Entry {
        /// Its number.
        number: u32,
        /// Its arguments.
        args: [u64; 6],
    },
    /// The call has ended.
    Exit {
        /// Its result: a value or a negative errno.
        value: i64,
        /// True if the result is an errno.
        is_error: bool,
    },
    /// The stop is not at a call.
    None,
}

impl SyscallInfo {
    /// Decodes the union by its tag (`PTRACE_SYSCALL_INFO_*`).
    pub(super) fn at(&self) -> AtCall {
        let body = &self.body;
        match self.op {
            // Tag 3 is a seccomp stop, whose first seven words are those of an entry.
            1 | 3 => AtCall::Entry {
                number: body[0] as u32,
                args: [body[1], body[2], body[3], body[4], body[5], body[6]],
            },
            // `is_error` is one byte, followed by padding.
            2 => AtCall::Exit { value: body[0] as i64, is_error: body[1] & 0xff != 0 },
            _ => AtCall::None,
        }
    }
}

/// Calls `ptrace` with one of the requests below, which writes at most a value of this type: an
/// integer or a struct of integers.
fn value<T: Default>(request: i64, pid: Pid, addr: u64) -> io::Result<T> {
    let mut value = T::default();
    // SAFETY: the kernel writes to a variable of the type, of which any bytes are valid.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, request, pid, addr, &raw mut value) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// `PTRACE_GET_SYSCALL_INFO`.
pub(super) fn syscall_info(pid: Pid) -> io::Result<SyscallInfo> {
    value(PTRACE_GET_SYSCALL_INFO, pid, size_of::<SyscallInfo>() as u64)
}

/// `PTRACE_GETEVENTMSG`.
pub(super) fn event_message(pid: Pid) -> io::Result<libc::c_ulong> {
    value(0x4201, pid, 0)
}

/// `PTRACE_PEEKDATA`: reads one word. It also works on a process that is not dumpable, for which
/// [`read_memory`] fails.
pub(super) fn peek(pid: Pid, addr: u64) -> io::Result<libc::c_ulong> {
    // The C library's wrapper returns the word, so that -1 is ambiguous. The system call stores it
    // (ptrace(2), "C library/kernel differences").
    value(2, pid, addr)
}

/// `process_vm_readv`: reads memory of a process and returns the number of bytes read.
pub(super) fn read_memory(pid: Pid, addr: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` covers a slice that this function may write. The kernel does not follow
    // `remote` in this process.
    let read = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Waits for a task traced by this thread, or for `only`. Returns its id and status.
pub(super) fn wait(only: Option<Pid>) -> io::Result<(Pid, i32)> {
    // __WALL includes threads, which are no children in the sense of a plain wait. __WNOTHREAD
    // excludes children of other threads, which other runs may trace.
    let flags = WaitOptions::from_bits_retain((libc::__WALL | libc::__WNOTHREAD).cast_unsigned());
    let wait = || match only {
        Some(pid) => waitpid(rustix::process::Pid::from_raw(pid), flags),
        // Not `waitpid` of no process, which leaves out the children of other process groups.
        None => rustix::process::wait(flags),
    };
    let waited = rustix::io::retry_on_intr(wait)?;
    // Without `WNOHANG` there is always a status.
    let (pid, status) = waited.ok_or(io::ErrorKind::WouldBlock)?;
    Ok((pid.as_raw_pid(), status.as_raw()))
}

/// Sends a signal. If the process has ended, nothing happens.
pub(super) fn kill(pid: Pid, signal: i32) {
    // SAFETY: `kill` takes integers and touches no memory of this process.
    unsafe { libc::kill(pid, signal) };
}

/// Returns a task's process and that process's parent, from `/proc`.
pub(super) fn process_and_parent(pid: Pid) -> Option<(Pid, Pid)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((field("Tgid:")?, field("PPid:")?))
}
