//! `becalm report --survey`: a page about the lines of `becalm check --ndjson`.

use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use askama::Template;
use becalm_host::open_stream;
use becalm_lib::survey::summary::{Group, Summary, summary};
use becalm_lib::words::{counted, grouped};

use crate::report::html::format::percent;

/// Rows of a list.
const ROWS: usize = 25;

/// Reads the lines of a file, or of standard input for `-`, and makes the page.
///
/// # Errors
/// Returns an error if the lines cannot be read, or do not belong to a survey.
pub(crate) fn page(path: &Path) -> Result<String> {
    let read = || -> Result<Summary> {
        Ok(match path.as_os_str() == "-" {
            true => summary(io::stdin().lock())?,
            false => summary(BufReader::new(open_stream(path)?))?,
        })
    };
    let summary = read()?;
    Page::of(&summary).render().context("the page cannot be made")
}

/// The page of a survey.
#[derive(Debug, Template)]
#[template(path = "survey.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    files: String,
    verdict: String,
    figures: Vec<(&'static str, String)>,
    lists: Vec<List>,
}

/// One list, most misses first.
#[derive(Debug)]
struct List {
    title: &'static str,
    rows: Vec<Row>,
    left_out: String,
}

/// One row of a list.
#[derive(Debug)]
struct Row {
    name: String,
    note: String,
    count: String,
    share: String,
}

impl Page {
    fn of(summary: &Summary) -> Self {
        let Summary { all, libraries, errors, packages, owners, libcs, .. } = summary;
        let files = counted(all.files, "program", "programs");
        let searching: u64 = summary.sizes.iter().skip(1).sum();
        let few = share_of_first(packages, all.misses);
        let verdict = format!(
            "{} of {files} search in vain: {} in all. {few}",
            grouped(searching),
            counted(all.misses, "miss", "misses"),
        );
        let figures = vec![
            ("misses", grouped(all.misses)),
            ("of them in hwcaps subdirectories", grouped(all.hwcaps_misses)),
            ("programs that lack a library", grouped(all.broken)),
            ("files that could not be checked", grouped(*errors)),
        ];
        let lists = vec![
            programs("Programs", &summary.worst, all.files),
            groups("Packages and folders", packages),
            groups("Owners", owners),
            groups("C libraries", libcs),
            by_size(&summary.sizes),
            programs("Libraries, each loaded alone", &summary.worst_libraries, libraries.files),
        ];
        let version = env!("CARGO_PKG_VERSION");
        Self { version, style: include_str!("html/report.css"), files, verdict, figures, lists }
    }
}

/// Returns the share of all misses in the first tenth of the packages.
fn share_of_first(packages: &[(String, Group)], all: u64) -> String {
    let tenth = packages.len().div_ceil(10);
    if all == 0 || packages.len() < 10 {
        return String::new();
    }
    let misses: u64 = packages.iter().take(tenth).map(|(_, group)| group.misses).sum();
    let packages = counted(tenth as u64, "package or folder has", "packages and folders have");
    format!("{packages} {}% of them.", percent(misses, all))
}

fn groups(title: &'static str, groups: &[(String, Group)]) -> List {
    let most = groups.first().map_or(1, |(_, group)| group.misses);
    let row = |(name, group): &(String, Group)| Row {
        name: becalm_lib::escape::shown(name.as_bytes().into()),
        note: counted(group.files, "program", "programs"),
        count: grouped(group.misses),
        share: percent(group.misses, most),
    };
    List { title, rows: groups.iter().take(ROWS).map(row).collect(), left_out: rest(groups.len()) }
}

fn programs(title: &'static str, worst: &[(String, u64)], files: u64) -> List {
    let most = worst.first().map_or(1, |(_, misses)| *misses);
    let row = |(name, misses): &(String, u64)| Row {
        name: becalm_lib::escape::shown(name.as_bytes().into()),
        note: String::new(),
        count: grouped(*misses),
        share: percent(*misses, most),
    };
    let rows = worst.iter().take(ROWS).map(row).collect();
    let left_out = rest(usize::try_from(files).unwrap_or(usize::MAX));
    List { title, rows, left_out }
}

/// Returns the number of files by misses.
fn by_size(sizes: &[u64]) -> List {
    let most = sizes.iter().copied().max().unwrap_or(1);
    let name = |tens: usize| match tens {
        0 => "no misses".to_owned(),
        tens => {
            let least = 10_u64.pow(tens as u32 - 1);
            format!("{} to {} misses", grouped(least), grouped(10 * least - 1))
        }
    };
    let row = |(tens, count): (usize, &u64)| Row {
        name: name(tens),
        note: String::new(),
        count: grouped(*count),
        share: percent(*count, most),
    };
    let rows = sizes.iter().enumerate().map(row).collect();
    List { title: "Programs by misses", rows, left_out: String::new() }
}

fn rest(all: usize) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("{} more", grouped(more as u64)),
    }
}
