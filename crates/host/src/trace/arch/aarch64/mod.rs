//! 64-bit ARM. Programs of 32-bit ARM run untraced: their calls are let pass and a note
//! says so.

use std::io;

use super::Abi;
use crate::trace::stopped::Stopped;

/// `AUDIT_ARCH_AARCH64`.
const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;

static ABIS: [Abi; 1] = [Abi::new(AUDIT_ARCH_AARCH64, 0, include_str!("syscalls.txt"))];

/// The conventions of this machine, the native one first.
pub(in crate::trace) fn abis() -> &'static [Abi] {
    &ABIS
}

/// `brk #0`, in the lower half of a word.
pub(in crate::trace) const BREAKPOINT: u64 = 0xd420_0000;
/// The bits of a word that the instruction takes.
pub(in crate::trace) const BREAKPOINT_MASK: u64 = 0xffff_ffff;

/// Where the program counter is once the breakpoint at `entry` was hit: still there.
pub(in crate::trace) fn after_breakpoint(entry: u64) -> u64 {
    entry
}

/// The program counter needs no putting back.
pub(in crate::trace) fn rewind(_task: &Stopped, _entry: u64) -> io::Result<()> {
    Ok(())
}
