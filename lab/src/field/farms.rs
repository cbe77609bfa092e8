//! Counts the misses that remain with directories of links: for the program alone, and for every
//! object of its closure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Row, grouped, row, trace};
use crate::becalm::becalm;
use crate::child;
use crate::mount_namespace::MountNamespace;
use crate::stored::program;

/// Programs with the figures of devenv's authors for a similar one: one with a wide run path, and
/// one with a narrow run path and a large closure.
const PROGRAMS: [(&str, [&str; 3]); 3] = [
    ("convert-im6.q16", ["1,225 (magick, 91 libraries, 35 directories)", "213 (−83 %)", ""]),
    ("nix", ["486 (devenv, 83 libraries, 12 directories)", "392 (−19 %)", "88 (−82 %)"]),
    ("inkscape", ["", "", ""]),
];

/// Counts failed opens of `.so` files, as the blog post does.
pub(super) fn rows((tool, store): &(PathBuf, PathBuf)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, theirs) in PROGRAMS {
        let path = program(store, name)?;
        let line = [path.as_ref(), OsStr::new("--version")];
        let missed = || anyhow::Ok(trace(&line, &[])?.missed_opens);
        let farmed = |flag: &str, what: &Path| {
            let mut fix = child::command(tool);
            fix.args(["fix", "--with", "farm", "--no-sync", flag, "--store"]).args([store, what]);
            becalm(&mut fix)?;
            missed()
        };
        let before = missed()?;
        let copied = || MountNamespace::with_copy(store);
        let leaf = copied()?.run(|| farmed("--leaf", &path))??;
        let every = copied()?.run(|| farmed("--leaf", store))??;
        let graph = copied()?.run(|| farmed("--closure", &path))??;
        let less = |now: usize| {
            let part = 100.0 * (before.saturating_sub(now)) as f64 / before.max(1) as f64;
            format!("{} (−{part:.0} %)", grouped(now))
        };
        let [storm, of_leaf, of_graph] = theirs;
        let figures = [
            ("as it is", storm, grouped(before)),
            ("a farm for the program alone", of_leaf, less(leaf)),
            ("a farm for each object", of_graph, less(every)),
            ("one farm for the whole graph", "", less(graph)),
        ];
        let of_program = |what| format!("{name} --version, {what}");
        rows.extend(figures.map(|(what, theirs, ours)| row(of_program(what), theirs, ours)));
    }
    Ok(rows)
}
