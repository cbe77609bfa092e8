//! Programs whose files are in trees that change, on a network's file system: what earlier starts looked
//! up is looked up again when a start begins, many paths at once, and the program is told the results
//! (`crates/audit/module/tree.c`). Files that are as they were copied are read from a disk of this machine.
//!
//! [`begin`] prepares a start, [`door`] is the process that gives tables to programs, [`attend`] fills a table
//! and learns from its programs, [`record`] is what is remembered, [`folder`] the place of records and copies,
//! [`started`] finds the programs that a command starts, and [`state`] is what `becalm doctor` and `becalm cache` say of
//! them.

mod attend;
pub mod begin;
mod check;
mod complete;
mod copies;
pub mod counts;
mod door;
pub(crate) mod folder;
mod learn;
pub mod pack;
pub mod packed;
mod packed_index;
pub mod record;
mod source;
mod started;
pub mod state;
#[cfg(test)]
mod tests;
pub mod unpack;

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;

use becalm_core::index::volume;
use becalm_host::threads::in_threads;
use rustix::fs::statfs;
use rustix::process::{Pid, test_kill_process};

use self::record::Record;
use crate::index::variables::{SWITCHES, has_switch};

/// The switch with which the program gets no answers about trees that change, and nothing is learned.
pub const NO_TREES: &str = "notrees";
/// The variable with directories, separated by colons, below which the times of files count although the
/// type of the file system does not say so.
pub const TRUST_TIMES: &str = "BECALM_TRUST_TIMES";
/// Threads that wait for a file system.
const THREADS: usize = 128;
/// Size of their stacks.
const STACK: usize = 128 * 1024;

/// Returns what a second process looks up in a start of this command: it also reads these files ahead.
pub(crate) fn looked_up(command: &Path) -> Option<Record> {
    let is_off = has_switch(env::var_os(SWITCHES).as_deref(), NO_TREES);
    let folder = folder::existing().filter(|_| !is_off)?;
    Record::at(&record::place(&folder, command))
}

/// Returns the results of `work` for these items, many at once.
fn in_parallel<I: Sync, T: Send + Sync>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let done: Vec<OnceLock<T>> = items.iter().map(|_| OnceLock::new()).collect();
    let threads = THREADS.min(items.len().div_ceil(4));
    in_threads(items.len(), threads, STACK, |at| done[at].set(work(&items[at])).is_ok());
    done.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Returns `f_type` of a file system.
fn kind_of(path: &Path) -> Option<u32> {
    statfs(path).ok().map(|it| it.f_type as u32)
}

/// True if calls about this path can take a round trip.
pub(crate) fn is_slow(path: &Path) -> bool {
    kind_of(path).is_some_and(volume::is_networked)
}

/// True if a file below this tree cannot change without its times.
fn times_count(tree: &Path) -> bool {
    let trusted = env::var_os(TRUST_TIMES);
    trusted.iter().flat_map(env::split_paths).any(|it| it.is_absolute() && tree.starts_with(it))
        || kind_of(tree).is_some_and(volume::sets_times)
}

/// Returns a path for a call of the kernel; `None` if it has a zero in it.
fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().to_owned().into_vec()).ok()
}

/// True while a process of this user exists.
fn is_running(process: u32) -> bool {
    Pid::from_raw(process.cast_signed()).is_some_and(|it| test_kill_process(it).is_ok())
}
