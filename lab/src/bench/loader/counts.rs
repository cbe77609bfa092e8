//! Counts system calls of a start and instructions of its loader.
//!
//! strace counts the calls of the whole start, and of a start that the loader ends before the
//! program begins (`LD_TRACE_LOADED_OBJECTS`). callgrind counts the instructions of the loader run
//! with `--list`: all of them, and those of the search, which is `_dl_map_object` (2.43:
//! `_dl_map_new_object`) without the mapping of the found files (`_dl_map_object_from_fd`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::homeless;
use crate::child;
use crate::elf::Dynamic;
use crate::stored::{Place, entries};

/// Counts of one start.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Counts {
    /// System calls of the start.
    pub(super) calls: usize,
    /// System calls of the loader, up to the program's entry point.
    pub(super) loader_calls: usize,
    /// Failed opens and stats of the loader.
    pub(super) loader_misses: usize,
    /// Instructions of the loader up to the list of objects.
    pub(super) instructions: Option<u64>,
    /// Instructions of its searches; absent if the loader has no symbols.
    pub(super) searching: Option<u64>,
    /// Instructions of finding and reading notes and package caches.
    pub(super) reading: Option<u64>,
}

/// Counts for one program in one place.
///
/// # Errors
/// Returns an error if strace or valgrind cannot be run, or the program fails.
pub(super) fn of(place: &Place, program: &Path, argument: &str) -> Result<Counts> {
    let scratch = tempfile::tempdir()?;
    let all = strace(place, scratch.path(), &[], program, &[argument])?;
    let (loader_calls, loader_misses) = loader(place, program, &[])?;
    let [instructions, searching, reading] = profile(place, scratch.path(), program)?;
    let calls = all.lines().count();
    Ok(Counts { calls, loader_calls, loader_misses, instructions, searching, reading })
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

/// Functions that the patches add, which find an answer and open no candidate.
const READERS: [&str; 2] = ["resolution_find", "_dl_package_cache_lookup"];

/// Returns the instructions of the loader, of its searches, and of the readers.
fn profile(place: &Place, scratch: &Path, program: &Path) -> Result<[Option<u64>; 3]> {
    let out = scratch.join("callgrind");
    let loader = Dynamic::read(program)?.interpreter;
    let loader = loader.with_context(|| format!("{}: no interpreter", program.display()))?;
    let mut command = homeless(Path::new("valgrind"));
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(loader).arg("--list").arg(program);
    place.run(|| child::succeed(&mut command))?;
    let mut annotate = child::command("callgrind_annotate");
    let table = child::succeed(annotate.args(["--inclusive=yes", "--threshold=100"]).arg(&out))?;
    let of = |name: &str| inclusive(&table, name);
    let lookup = of("_dl_map_object").or_else(|| of("_dl_map_new_object"));
    let searching = lookup.zip(of("_dl_map_object_from_fd")).map(|(all, mapping)| all - mapping);
    let reading: u64 = READERS.into_iter().filter_map(of).sum();
    let reading = searching.is_some().then_some(reading);
    let all = total(&table).context("callgrind_annotate told no total")?;
    Ok([Some(all), searching, reading])
}

/// Returns the number before `PROGRAM TOTALS`.
fn total(table: &str) -> Option<u64> {
    first_number(table.lines().find(|line| line.contains("PROGRAM TOTALS"))?)
}

/// Returns the instructions of a function including its callees.
fn inclusive(table: &str, function: &str) -> Option<u64> {
    let is_it = |line: &&str| {
        let name = line.rsplit_once(':').map(|(_, rest)| rest);
        name.and_then(|rest| rest.split([' ', '\'']).next()) == Some(function)
    };
    // Recursion and inlined parts have additional lines with smaller numbers.
    table.lines().filter(is_it).filter_map(first_number).max()
}

fn first_number(line: &str) -> Option<u64> {
    let digits: String = line.split_whitespace().next()?.chars().filter(|c| *c != ',').collect();
    digits.parse().ok()
}

/// Returns the version that a folder's loader prints.
///
/// # Errors
/// Returns an error if there is no loader or it does not run.
pub(super) fn version(libraries: &Path) -> Result<String> {
    let loader = entries(libraries)?
        .into_iter()
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("ld")))
        .with_context(|| format!("{}: no loader", libraries.display()))?;
    let text = child::succeed(child::command(loader).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Returns a count in thousands as text.
pub(super) fn thousands(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| format!("{:.0} k", count as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
12,345,678 (100.0%)  PROGRAM TOTALS
 9,000,000 (72.90%)  ./elf/./elf/dl-load.c:_dl_map_object'2 [/s/ld.so]
10,000,000 (81.00%)  ./elf/./elf/dl-load.c:_dl_map_object [/s/ld.so]
 4,000,000 (32.40%)  ./elf/./elf/dl-load.c:_dl_map_object_from_fd [/s/ld.so]
";

    #[test]
    fn the_totals_of_functions_are_read_by_their_whole_names() {
        assert_eq!(total(TABLE), Some(12_345_678));
        assert_eq!(inclusive(TABLE, "_dl_map_object"), Some(10_000_000));
        assert_eq!(inclusive(TABLE, "_dl_map_object_from_fd"), Some(4_000_000));
        assert_eq!(inclusive(TABLE, "_dl_map"), None);
    }

    #[test]
    fn a_miss_is_a_failed_open_or_stat_of_a_library() {
        assert!(is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = -1 ENOENT (No such)"));
        assert!(is_miss("newfstatat(AT_FDCWD, \"/s/\", 0x7ffe, 0) = -1 ENOENT (No such)"));
        assert!(!is_miss("openat(AT_FDCWD, \"/etc/ld.so.preload\", O_RDONLY) = -1 ENOENT"));
        assert!(!is_miss("access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT"));
        assert!(!is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = 3"));
    }
}
