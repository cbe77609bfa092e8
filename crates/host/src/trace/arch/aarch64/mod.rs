//! 64-bit ARM. Calls of 32-bit ARM programs are allowed without a stop, and a note reports that.

use std::io;

use super::Abi;
use crate::trace::stopped::Stopped;

/// `AUDIT_ARCH_AARCH64`.
const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;

/// The calling conventions of this architecture, the native one first.
pub(in crate::trace) static ABIS: [Abi; 1] =
    [Abi::new(AUDIT_ARCH_AARCH64, 0, include_str!("syscalls.txt"))];

/// `brk #0`, in the lower half of a word.
pub(in crate::trace) const BREAKPOINT: u64 = 0xd420_0000;
/// The bits of a word that the instruction occupies.
pub(in crate::trace) const BREAKPOINT_MASK: u64 = 0xffff_ffff;

/// Returns the program counter after the breakpoint at `entry` was hit: `brk` does not advance it.
pub(in crate::trace) fn after_breakpoint(entry: u64) -> u64 {
    entry
}

/// Does nothing, because the program counter is still at `entry`.
pub(in crate::trace) fn rewind(_task: &Stopped, _entry: u64) -> io::Result<()> {
    Ok(())
}
