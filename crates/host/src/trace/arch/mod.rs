//! Differences between architectures: system call numbers, the breakpoint instruction, the program
//! counter. Each architecture has a folder.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;

use super::calls::{self, Role};

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{BREAKPOINT, BREAKPOINT_MASK, abis, after_breakpoint, rewind};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{BREAKPOINT, BREAKPOINT_MASK, abis, after_breakpoint, rewind};

/// A calling convention of the kernel: one `AUDIT_ARCH_*` value and its numbers.
pub(super) struct Abi {
    /// `AUDIT_ARCH_*` of `<linux/audit.h>`.
    pub(super) arch: u32,
    /// A bit to ignore in the numbers; a variant with the same `AUDIT_ARCH_*` value (x32) sets it.
    pub(super) variant_bit: u32,
    /// Lines of `number name`.
    table: &'static str,
    names: OnceLock<Vec<(u32, &'static str)>>,
    by_number: OnceLock<Vec<Option<Known>>>,
}

/// A call of a convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its name.
    pub(super) name: &'static str,
    /// Its role for the tracer.
    pub(super) role: Role,
    /// See [`super::calls::stat_flags`].
    pub(super) stat_flags: Option<usize>,
}

impl Abi {
    const fn new(arch: u32, variant_bit: u32, table: &'static str) -> Self {
        Abi { arch, variant_bit, table, names: OnceLock::new(), by_number: OnceLock::new() }
    }

    /// Returns all numbers and names, ordered by number.
    pub(super) fn names(&self) -> &[(u32, &'static str)] {
        self.names.get_or_init(|| self.table.lines().filter_map(row).collect())
    }

    /// Returns the call with a number, ignoring the variant bit.
    pub(super) fn known(&self, number: u32) -> Option<Known> {
        let known = self.by_number.get_or_init(|| self.lay_out());
        *known.get((number & !self.variant_bit) as usize)?
    }

    fn lay_out(&self) -> Vec<Option<Known>> {
        let mut known = Vec::new();
        for (number, name) in self.names() {
            known.resize(*number as usize, None);
            let stat_flags = calls::stat_flags(name);
            known.push(Some(Known { name, role: calls::role(name), stat_flags }));
        }
        known
    }
}

fn row(line: &'static str) -> Option<(u32, &'static str)> {
    let (number, name) = line.split_once(' ')?;
    Some((number.parse().ok()?, name))
}

/// Returns the calling convention with this `AUDIT_ARCH_*` value.
pub(super) fn abi(arch: u32) -> Option<&'static Abi> {
    abis().iter().find(|abi| abi.arch == arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_whole_and_in_order() {
        for abi in abis() {
            let names = abi.names();
            assert_eq!(names.len(), abi.table.lines().count(), "a line that is no row");
            assert!(names.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for call in ["openat", "openat2", "statx", "execve", "readlinkat", "faccessat2"] {
                let found = names.iter().find(|(_, name)| *name == call);
                let (number, _) = found.unwrap_or_else(|| panic!("{call} is missing"));
                assert_eq!(abi.known(*number).unwrap().name, call);
            }
        }
    }

    #[test]
    fn the_native_numbers_are_those_of_this_machine() {
        let native = &abis()[0];
        for (number, name) in [
            (libc::SYS_openat, "openat"),
            (libc::SYS_newfstatat, "newfstatat"),
            (libc::SYS_execve, "execve"),
            (libc::SYS_ptrace, "ptrace"),
            (libc::SYS_getppid, "getppid"),
        ] {
            assert_eq!(native.known(u32::try_from(number).unwrap()).unwrap().name, name);
        }
    }
}
