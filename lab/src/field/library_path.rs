//! Counts the directories that a loader derives from a few entries of `LD_LIBRARY_PATH`: a
//! published example is a shell that searched 209 of them for one library.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Row, grouped, row, search_path};
use crate::child;
use crate::elf::Dynamic;
use crate::import::write::joined;

/// Number of entries in the example's `LD_LIBRARY_PATH`.
const ENTRIES: usize = 13;

/// Counts, for each loader, the directories of the first search and the tried files.
pub(super) fn rows(loaders: &[PathBuf]) -> Result<Vec<Row>> {
    let scratch = tempfile::tempdir()?;
    let (program, dirs) = search_path::build(scratch.path(), ENTRIES, 1, false)?;
    let path = joined(&dirs);
    let own = Dynamic::read(&program)?.interpreter.context("a program without a loader")?;
    let own = PathBuf::from(own);
    let mut rows = Vec::new();
    for loader in loaders.iter().chain([&own]) {
        let mut command = child::command(loader);
        command.env("LD_DEBUG", "libs").env("LD_LIBRARY_PATH", &path);
        // A program for a later release is not listed, but its libraries are searched for.
        let said = child::finish(command.arg("--list").arg(&program))?;
        let (dirs, tried) = searched(&said.stdout, &said.stderr);
        let theirs = if rows.is_empty() { "209 directories" } else { "" };
        let what = format!("{ENTRIES} entries, one library, {}", release(loader)?);
        let ours = format!("{} directories, {} files tried", grouped(dirs), grouped(tried));
        rows.push(row(what, theirs, ours));
    }
    Ok(rows)
}

/// Returns the release of a loader's C library: from its own output or, before 2.33, from its file
/// name.
fn release(loader: &Path) -> Result<String> {
    let said = child::finish(child::command(loader).arg("--version"))?;
    let first = said.stdout.lines().next().unwrap_or_default();
    let named = loader.file_stem().unwrap_or_default().to_string_lossy();
    let version = first.rsplit(' ').next().unwrap_or_default();
    match version.starts_with(|c: char| c.is_ascii_digit()) {
        true => Ok(format!("glibc {}", version.trim_end_matches('.'))),
        false => Ok(named.replacen("ld-", "glibc ", 1)),
    }
}

/// Returns the number of directories of the first search that `LD_LIBRARY_PATH` caused, and of the
/// files tried in it.
fn searched(stdout: &str, stderr: &str) -> (usize, usize) {
    let lines = stdout.lines().chain(stderr.lines());
    let (mut dirs, mut tried) = (0, 0);
    for line in lines.skip_while(|line| !line.contains("(LD_LIBRARY_PATH)")) {
        if line.contains("search path=") {
            if dirs > 0 {
                break;
            }
            let list = line.split("search path=").nth(1).unwrap_or_default();
            let list = list.split('\t').next().unwrap_or_default();
            dirs = list.split(':').count();
        } else if line.contains("trying file=") {
            tried += 1;
        } else if line.contains("find library=") {
            break;
        }
    }
    (dirs, tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_search_alone_counts() {
        let said = "\
      9:\tfind library=libseed000.so [0]; searching
      9:\t search path=/a/tls:/a:/b/tls:/b\t\t(LD_LIBRARY_PATH)
      9:\t  trying file=/a/tls/libseed000.so
      9:\t  trying file=/a/libseed000.so
      9:\t
      9:\tfind library=libc.so.6 [0]; searching
      9:\t search path=/a:/b\t\t(LD_LIBRARY_PATH)
      9:\t  trying file=/a/libc.so.6
";
        assert_eq!(searched("", said), (4, 2));
    }
}
