//! The kernel's caches of files, directories and absent names, dropped.

use std::fs::OpenOptions;
use std::io::Write;

use super::BenchError;

/// Where the kernel is asked to (proc_sys_vm(5)).
const SWITCH: &str = "/proc/sys/vm/drop_caches";

/// Drops what is clean of the page cache, and the entries of directories and inodes: of
/// the whole machine, which has no smaller switch.
///
/// # Errors
/// Where that is not allowed: for an ordinary user, in most containers.
pub(super) fn drop() -> Result<(), BenchError> {
    // What is not written yet cannot be dropped.
    rustix::fs::sync();
    let mut switch = OpenOptions::new().write(true).open(SWITCH).map_err(refused)?;
    switch.write_all(b"3\n").map_err(refused)
}

fn refused(source: std::io::Error) -> BenchError {
    BenchError::Caches { switch: SWITCH, source }
}
