//! Counts system calls of a start.
//!
//! strace counts the calls of the whole start, and of a start that the loader ends before the
//! program begins (`LD_TRACE_LOADED_OBJECTS`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::homeless;
use crate::child;
use crate::stored::Place;

/// Counts of one start.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Counts {
    /// System calls of the start.
    pub(super) calls: usize,
    /// System calls of the loader, up to the program's entry point.
    pub(super) loader_calls: usize,
    /// Failed opens and stats of the loader.
    pub(super) loader_misses: usize,
}

/// Counts for one program in one place.
///
/// # Errors
/// Returns an error if strace cannot be run, or the program fails.
pub(super) fn of(place: &Place, program: &Path, argument: &str) -> Result<Counts> {
    let scratch = tempfile::tempdir()?;
    let all = strace(place, scratch.path(), &[], program, &[argument])?;
    let (loader_calls, loader_misses) = loader(place, program, &[])?;
    Ok(Counts { calls: all.lines().count(), loader_calls, loader_misses })
}

/// Counts the loader's system calls for one program in one place, with variables, and its failed opens
/// and stats.
///
/// # Errors
/// Returns an error if strace cannot be run or the loader fails.
pub(in crate::bench) fn loader(
    place: &Place,
    program: &Path,
    environment: &[(&str, String)],
) -> Result<(usize, usize)> {
    let scratch = tempfile::tempdir()?;
    // strace sets them for the program, so that they do not affect strace itself.
    let variables = environment.iter().map(|(name, value)| format!("-E{name}={value}"));
    let more: Vec<String> = variables.chain(["-ELD_TRACE_LOADED_OBJECTS=1".to_owned()]).collect();
    let log = strace(place, scratch.path(), &more, program, &[])?;
    Ok((log.lines().count(), log.lines().filter(|line| is_miss(line)).count()))
}

fn is_miss(line: &str) -> bool {
    let call = line.split('(').next().unwrap_or_default();
    let is_search = call.starts_with("open") || call.contains("stat");
    // The loader always opens the preload file, which is no search for a library.
    is_search && line.contains("= -1 ") && !line.contains("ld.so.preload")
}

fn strace(
    place: &Place,
    scratch: &Path,
    more: &[String],
    program: &Path,
    arguments: &[&str],
) -> Result<String> {
    let log = scratch.join("strace");
    let mut command = homeless(Path::new("strace"));
    command.arg("-qq").arg("-o").arg(&log).args(more).arg(program).args(arguments);
    place.run(|| child::succeed(&mut command))?;
    fs::read_to_string(&log).with_context(|| log.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_a_failed_open_or_stat_of_a_library() {
        assert!(is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = -1 ENOENT (No such)"));
        assert!(is_miss("newfstatat(AT_FDCWD, \"/s/\", 0x7ffe, 0) = -1 ENOENT (No such)"));
        assert!(!is_miss("openat(AT_FDCWD, \"/etc/ld.so.preload\", O_RDONLY) = -1 ENOENT"));
        assert!(!is_miss("access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT"));
        assert!(!is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = 3"));
    }
}
