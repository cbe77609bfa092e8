//! x86-64, including its x32 variant and 32-bit programs.

use std::io;

use super::Abi;
use crate::trace::stopped::Stopped;
use crate::trace::sys::{self, Request};

/// `AUDIT_ARCH_X86_64`.
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`.
const AUDIT_ARCH_I386: u32 = 0x4000_0003;
/// `__X32_SYSCALL_BIT`.
const X32_BIT: u32 = 0x4000_0000;

/// The calling conventions of this architecture, the native one first.
pub(in crate::trace) static ABIS: [Abi; 2] = [
    Abi::new(AUDIT_ARCH_X86_64, X32_BIT, include_str!("syscalls.txt")),
    Abi::new(AUDIT_ARCH_I386, 0, include_str!("i386.txt")),
];

/// `int3`, in the lowest byte of a word.
pub(in crate::trace) const BREAKPOINT: u64 = 0xcc;
/// The bits of a word that the instruction occupies.
pub(in crate::trace) const BREAKPOINT_MASK: u64 = 0xff;

/// Returns the program counter after the breakpoint at `entry` was hit.
pub(in crate::trace) fn after_breakpoint(entry: u64) -> u64 {
    entry.wrapping_add(1)
}

/// Sets the program counter back to `entry`.
pub(in crate::trace) fn rewind(task: &Stopped, entry: u64) -> io::Result<()> {
    /// Offset of `rip` in `struct user`.
    const RIP: u64 = 16 * 8;
    sys::ptrace(Request::PokeUser, task.pid, RIP, entry)
}
