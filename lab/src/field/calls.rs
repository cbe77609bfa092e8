//! Counts system calls of whole starts and their failed opens of libraries.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Calls, Row, grouped, row, trace};
use crate::bench::calm::calm;
use crate::mount_namespace::MountNamespace;
use crate::stored::{program, set_libc};
use crate::{becalm, child};

/// Programs with their published figures.
///
/// The first are those without a strategy, of the authors of Guix's loader cache, of devenv
/// (imagemagick) and of shrinkwrap (the second figure of emacs); then those with absolute names
/// (shrinkwrap), and with a loader cache (Guix).
const PROGRAMS: [(&str, [&str; 3]); 5] = [
    ("convert-im6.q16", ["1,225 failing `.so` opens (magick)", "", ""]),
    (
        "emacs-nox",
        [
            "2,227 of 3,325 calls failed; 1,823 stats and opens",
            "104 stats and opens",
            "24 of 1,128 calls failed",
        ],
    ),
    (
        "guile",
        [
            "268 of 773 calls failed: 114 opens, 144 stats",
            "",
            "105 of 600 calls failed: 6 opens, 88 stats",
        ],
    ),
    ("bash", ["16 opens and 14 stats failed", "", "5 of 59 calls failed: 4 opens"]),
    ("inkscape", ["3,700 failing calls; 44 entries in its run path", "", ""]),
];

/// Counts each program without a strategy and with each strategy.
pub(super) fn rows((tool, store): &(PathBuf, PathBuf), libraries: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows = all(store, "as it is", Some(0), &[])?;

    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    becalm::index(tool, store, &index)?;
    rows.extend(all(store, "index", None, &calm(&index))?);

    rows.extend(MountNamespace::with_copy(store)?.run(|| {
        becalm::fix(tool, "absolute", store)?;
        all(store, "absolute", Some(1), &[])
    })??);

    if !libraries.is_empty() {
        rows.extend(MountNamespace::with_copy(store)?.run(|| {
            becalm::fix(tool, "ldcache", store)?;
            set_libc(store, libraries)?;
            // A C library that was built for another prefix searches for its character sets there.
            let environment: Vec<_> = gconv().map(|it| ("GCONV_PATH", it)).into_iter().collect();
            all(store, "ldcache", Some(2), &environment)
        })??);
    }
    Ok(rows)
}

/// Counts each program in one variant; `theirs` is the place of its published figures.
fn all(
    store: &Path,
    variant: &str,
    theirs: Option<usize>,
    environment: &[(&str, String)],
) -> Result<Vec<Row>> {
    let of_program = |(name, figures): &(&str, [&str; 3])| {
        let path = program(store, name)?;
        let what = format!("{name} --version, {variant}");
        let calls = trace(&[path.as_ref(), OsStr::new("--version")], environment)
            .with_context(|| what.clone())?;
        Ok(row(what, theirs.map_or("", |at| figures[at]), words(&calls)))
    };
    PROGRAMS.iter().map(of_program).collect()
}

fn words(calls: &Calls) -> String {
    format!(
        "{} of {} calls failed: {} opens of `.so`, {} stats",
        grouped(calls.failed),
        grouped(calls.all),
        grouped(calls.missed_opens),
        grouped(calls.missed_stats)
    )
}

/// Returns the directory with the character sets of the machine's C library.
fn gconv() -> Option<String> {
    let mut shell = child::command("sh");
    shell.args(["-c", "cd /usr/lib/$(uname -m)*/gconv && pwd -P"]);
    Some(child::succeed(&mut shell).ok()?.trim().to_owned())
}
