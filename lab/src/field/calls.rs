//! Counts system calls of whole starts and their failed opens of libraries.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Calls, Row, becalm, grouped, trace};
use crate::stored::{Place, program, set_libc};

/// A program, arguments that make it exit, and its published figures.
struct Known {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Without a strategy: the figures of the authors of Guix's loader cache, of devenv
    /// (imagemagick) and of shrinkwrap (the second figure of emacs).
    storm: &'static str,
    /// With absolute names (shrinkwrap).
    absolute: &'static str,
    /// With a loader cache (Guix).
    cached: &'static str,
}

const PROGRAMS: [Known; 5] = [
    Known {
        name: "convert-im6.q16",
        arguments: &["--version"],
        storm: "1,225 failing `.so` opens (magick)",
        absolute: "",
        cached: "",
    },
    Known {
        name: "emacs-nox",
        arguments: &["--version"],
        storm: "2,227 of 3,325 calls failed; 1,823 stats and opens",
        absolute: "104 stats and opens",
        cached: "24 of 1,128 calls failed",
    },
    Known {
        name: "guile",
        arguments: &["--version"],
        storm: "268 of 773 calls failed: 114 opens, 144 stats",
        absolute: "",
        cached: "105 of 600 calls failed: 6 opens, 88 stats",
    },
    Known {
        name: "bash",
        arguments: &["--version"],
        storm: "16 opens and 14 stats failed",
        absolute: "",
        cached: "5 of 59 calls failed: 4 opens",
    },
    Known {
        name: "inkscape",
        arguments: &["--version"],
        storm: "3,700 failing calls; 44 entries in its run path",
        absolute: "",
        cached: "",
    },
];

/// A variant of the start.
struct Variant<'a> {
    name: &'a str,
    theirs: fn(&Known) -> &'static str,
    environment: Vec<(&'a str, String)>,
}

/// Counts each program without a strategy and with each strategy.
pub(super) fn rows(tool: &Path, store: &Path, libraries: &[PathBuf]) -> Result<Vec<Row>> {
    let tool = tool.canonicalize().with_context(|| tool.display().to_string())?;
    let store = store.canonicalize().with_context(|| store.display().to_string())?;
    let stored = store.to_str().context("a store with a name in UTF-8")?;
    let fix = |strategy| ["fix", "--with", strategy, "--no-sync", "--store", stored, stored];
    let plain = Variant { name: "as it is", theirs: |known| known.storm, environment: Vec::new() };
    let mut rows = all(&store, &plain)?;

    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    let index = index.to_str().context("a folder for scratch files with a name in UTF-8")?;
    becalm(&tool, &["index", "--store", stored, stored, "-o", index])?;
    let tunable = ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=4096".to_owned());
    let environment = vec![("LD_AUDIT", index.to_owned()), tunable];
    rows.extend(all(&store, &Variant { name: "index", theirs: |_| "", environment })?);

    rows.extend(Place::of(&store, None)?.run(|| {
        becalm(&tool, &fix("absolute"))?;
        let theirs = |known: &Known| known.absolute;
        all(&store, &Variant { name: "absolute", theirs, environment: Vec::new() })
    })?);

    if !libraries.is_empty() {
        rows.extend(Place::of(&store, None)?.run(|| {
            becalm(&tool, &fix("ldcache"))?;
            set_libc(&store, libraries)?;
            // A C library that was built for another prefix searches for its character sets there.
            let gconv = gconv().map(|folder| vec![("GCONV_PATH", folder)]);
            let environment = gconv.unwrap_or_default();
            all(&store, &Variant { name: "ldcache", theirs: |known| known.cached, environment })
        })?);
    }
    Ok(rows)
}

fn all(store: &Path, variant: &Variant<'_>) -> Result<Vec<Row>> {
    let row = |known: &Known| {
        let path = program(store, known.name)?;
        let mut command = vec![path.to_str().context("a path in UTF-8")?];
        command.extend(known.arguments);
        let environment: Vec<(&str, &str)> =
            variant.environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let what = format!("{} {}, {}", known.name, known.arguments.join(" "), variant.name);
        let calls = trace(&command, &environment).with_context(|| what.clone())?;
        Ok(Row { what, theirs: (variant.theirs)(known).to_owned(), ours: words(&calls) })
    };
    PROGRAMS.iter().map(row).collect()
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
    let mut folders = fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .filter(|folder| folder.file_name().to_string_lossy().starts_with(std::env::consts::ARCH));
    let folder = folders.find_map(|folder| folder.path().join("gconv").canonicalize().ok())?;
    Some(folder.to_str()?.to_owned())
}
