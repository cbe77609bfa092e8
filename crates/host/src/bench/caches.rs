//! Drops the kernel's caches of files, directories and absent names.

use std::fs::OpenOptions;
use std::io::Write;

use super::BenchError;

/// The kernel's switch (proc_sys_vm(5)).
const SWITCH: &str = "/proc/sys/vm/drop_caches";

/// Drops clean pages of the page cache, and the cached directory entries and inodes. This affects
/// the whole machine, because the kernel has no narrower switch.
///
/// # Errors
/// Returns an error if that is not allowed, as for an ordinary user and in most containers.
pub(super) fn drop() -> Result<(), BenchError> {
    // Dirty pages cannot be dropped, so they are written first.
    rustix::fs::sync();
    let mut switch = OpenOptions::new().write(true).open(SWITCH).map_err(refused)?;
    switch.write_all(b"3\n").map_err(refused)
}

fn refused(source: std::io::Error) -> BenchError {
    BenchError::Caches { switch: SWITCH, source }
}
