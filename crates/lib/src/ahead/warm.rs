//! Reads the pages of programs ahead without starting them (`becalm run --warm`).

use std::ffi::OsString;
use std::path::Path;

use becalm_host::pages::ahead::{Limits, request};
use serde::Serialize;

use crate::ahead::record::{Place, Record};
use crate::ahead::wanted;
use crate::json;
use crate::path::path_bytes;
use crate::run::program;
use crate::words::words_of_chain;

/// The files and bytes read for each program: the JSON document of `becalm run --warm`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The programs, in the order in which they were named.
    pub programs: Vec<Warmed>,
}

/// The files and bytes read for a program.
#[derive(Clone, Debug, Serialize)]
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
    /// The reason why nothing was read; null if something was.
    pub problem: Option<String>,
}

impl json::Report for Report {
    const SCHEMA: &'static str = "becalm/warm/1";
}

/// Reads the recorded pages of programs, and waits until they are in memory.
#[must_use]
pub fn warm(commands: &[OsString]) -> Report {
    Report { programs: commands.iter().map(of_command).collect() }
}

fn of_command(name: &OsString) -> Warmed {
    let failed = |path: &Path, problem: String| Warmed {
        path: path_bytes(path),
        files: 0,
        bytes: 0,
        skipped: 0,
        problem: Some(problem),
    };
    let path = match program::find(name) {
        Ok(found) => std::path::absolute(&found.path).unwrap_or(found.path),
        Err(error) => return failed(Path::new(name), words_of_chain(&error)),
    };
    let opened = Place::of(&path).and_then(|place| place.open());
    let record = match opened.and_then(|file| file.map(Record::read).transpose()) {
        Ok(Some(record)) => record,
        Ok(None) => {
            return failed(&path, "no start was recorded: becalm run records them".to_owned());
        }
        Err(error) => return failed(&path, words_of_chain(&error)),
    };
    let (wanted, limits) = wanted(&record);
    let done = request(&wanted, &Limits { wait: true, ..limits });
    Warmed {
        path: path_bytes(&path),
        files: done.files,
        bytes: done.bytes,
        skipped: done.skipped,
        problem: None,
    }
}
