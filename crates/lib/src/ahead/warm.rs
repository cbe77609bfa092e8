//! Reads the pages of programs ahead without starting them (`becalm run --warm`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use becalm_core::elf::Image;
use becalm_host::pages::ahead::{Limits, Wanted, request};
use becalm_host::pages::{FileState, MOST_PAGES, PAGE, open};
use object::ReadCache;
use serde::Serialize;

use crate::ahead::limits;
use crate::ahead::record::{NO_HOME, Record, merged, place};
use crate::json;
use crate::on;
use crate::path::path_bytes;
use crate::run::making::files_of_start;
use crate::run::program::{self, Found, Program};
use crate::words::words_of_chain;

/// The files and bytes read for each program: the JSON document of `becalm run --warm`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The programs, in the order in which they were named.
    pub programs: Vec<Warmed>,
}

/// The files and bytes read for a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Warmed {
    /// The path of the command.
    #[serde(serialize_with = "crate::json::lossy")]
    pub path: bstr::BString,
    /// The files of which pages were read.
    pub files: usize,
    /// The bytes of these pages.
    pub bytes: u64,
    /// Files that are missing or have changed since the starts that were recorded.
    pub skipped: usize,
    /// True if no start was recorded: the pages that loaders and constructors use were predicted.
    pub predicted: bool,
    /// The reason why nothing was read; null if something was.
    pub problem: Option<String>,
}

json::schema!(Report, "becalm/warm/1");

/// Reads the recorded pages of programs, or those predicted, and waits until they are in memory. Without
/// names, of the programs that are switched on by this user and for all users.
///
/// # Errors
/// Returns an error if there are no names, and the list of what is switched on cannot be read.
pub fn warm(commands: &[OsString]) -> anyhow::Result<Report> {
    let mut commands = commands.to_owned();
    if commands.is_empty() {
        for system in [false, true] {
            commands.extend(on::programs(system)?.into_iter().map(|it| it.path.into_os_string()));
        }
        commands.sort_unstable();
        commands.dedup();
    }
    Ok(Report { programs: commands.iter().map(of_command).collect() })
}

fn of_command(name: &OsString) -> Warmed {
    let mut path = PathBuf::from(name);
    let mut read = || {
        let found = program::find(name).map_err(|_| anyhow!("command not found"))?;
        path = std::path::absolute(&found.path).unwrap_or_else(|_| found.path.clone());
        let (wanted, predicted) = match record_of(&path)? {
            Some(record) => (record.wanted(), false),
            None => (predicted(found)?, true),
        };
        let done = request(&wanted, &Limits { wait: true, ..limits() });
        let (files, bytes, skipped) = (done.files, done.bytes, done.skipped);
        anyhow::Ok(Warmed { files, bytes, skipped, predicted, ..Warmed::default() })
    };
    let warmed = read().unwrap_or_else(|error| Warmed {
        problem: Some(words_of_chain(error.as_ref())),
        ..Warmed::default()
    });
    Warmed { path: path_bytes(&path), ..warmed }
}

/// Returns the record of a command, as `becalm run` names it, or as the audit module does: without links.
fn record_of(path: &Path) -> anyhow::Result<Option<Record>> {
    for path in iter::once(path.to_owned()).chain(path.canonicalize()) {
        if let Some(file) = place(&path).context(NO_HOME)?.open()? {
            return Record::read(file).context("no record of this version of becalm").map(Some);
        }
    }
    Ok(None)
}

/// Returns the pages that a program's loader and constructors use, by its files alone.
fn predicted(found: Found) -> anyhow::Result<Vec<Wanted>> {
    let files = files_of_start(&Program::look(found)?)?;
    Ok(files.iter().filter_map(|path| pages_of_start(path)).collect())
}

fn pages_of_start(path: &Path) -> Option<Wanted> {
    // A record has no symbolic links.
    let path: PathBuf = path.canonicalize().ok()?;
    let file = open(&path).ok()?;
    let state = FileState::of(&file.metadata().ok()?);
    let cache = ReadCache::new(file);
    let mut pages = BTreeSet::new();
    for (offset, length) in Image::new(&cache).ok()?.start_ranges() {
        let end = offset.saturating_add(length).min(state.size).min(MOST_PAGES * PAGE);
        pages.extend(offset / PAGE..end.div_ceil(PAGE));
    }
    let ranges = merged(&[], pages.into_iter());
    let ranges = ranges.into_iter().map(|range| (range.0, range.1)).collect();
    Some(Wanted { path, state, ranges, is_directory: false })
}
