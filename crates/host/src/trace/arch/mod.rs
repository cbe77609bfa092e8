//! Differences between architectures: system call numbers, the breakpoint instruction, the program
//! counter. Each architecture has a folder.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;

use super::calls::{self, Role};

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{ABIS, BREAKPOINT, BREAKPOINT_MASK, after_breakpoint, rewind};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{ABIS, BREAKPOINT, BREAKPOINT_MASK, after_breakpoint, rewind};

/// A calling convention of the kernel: one `AUDIT_ARCH_*` value and its numbers.
pub(super) struct Abi {
    /// `AUDIT_ARCH_*` of `<linux/audit.h>`.
    pub(super) arch: u32,
    /// A bit to ignore in the numbers; a variant with the same `AUDIT_ARCH_*` value (x32) sets it.
    pub(super) variant_bit: u32,
    /// Lines of `number name`.
    table: &'static str,
    calls: OnceLock<Vec<Call>>,
}

/// Number, name and role of a call.
type Call = (u32, &'static str, Role);

impl Abi {
    const fn new(arch: u32, variant_bit: u32, table: &'static str) -> Self {
        Abi { arch, variant_bit, table, calls: OnceLock::new() }
    }

    /// Returns all calls, ordered by number.
    pub(super) fn calls(&self) -> &[Call] {
        self.calls.get_or_init(|| self.table.lines().filter_map(call).collect())
    }

    /// Returns name and role of the call with a number, ignoring the variant bit.
    pub(super) fn known(&self, number: u32) -> Option<(&'static str, Role)> {
        let (number, calls) = (number & !self.variant_bit, self.calls());
        let at = calls.binary_search_by_key(&number, |call| call.0).ok()?;
        Some((calls[at].1, calls[at].2))
    }
}

fn call(line: &'static str) -> Option<Call> {
    let (number, name) = line.split_once(' ')?;
    Some((number.parse().ok()?, name, calls::role(name)))
}

/// Returns the calling convention with this `AUDIT_ARCH_*` value.
pub(super) fn abi(arch: u32) -> Option<&'static Abi> {
    ABIS.iter().find(|abi| abi.arch == arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_whole_and_in_order() {
        for abi in &ABIS {
            let calls = abi.calls();
            assert_eq!(calls.len(), abi.table.lines().count(), "a line that is no row");
            assert!(calls.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for name in ["openat", "openat2", "statx", "execve", "readlinkat", "faccessat2"] {
                let found = calls.iter().find(|call| call.1 == name);
                let (number, ..) = found.unwrap_or_else(|| panic!("{name} is missing"));
                assert_eq!(abi.known(*number).unwrap().0, name);
            }
        }
    }

    #[test]
    fn the_native_numbers_are_those_of_this_machine() {
        let native = &ABIS[0];
        for (number, name) in [
            (libc::SYS_openat, "openat"),
            (libc::SYS_newfstatat, "newfstatat"),
            (libc::SYS_execve, "execve"),
            (libc::SYS_ptrace, "ptrace"),
            (libc::SYS_getppid, "getppid"),
        ] {
            assert_eq!(native.known(u32::try_from(number).unwrap()).unwrap().0, name);
        }
    }
}
