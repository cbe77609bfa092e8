//! `becalm report --survey`: a page about the lines of `becalm check --ndjson`, and a page of each listed file.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use askama::Template;
use becalm_host::open_stream;
use becalm_lib::report::{Options, report};
use becalm_lib::survey::summary::{Group, Groups, Lost, Summary, summary, worst_first};
use becalm_lib::words::{counted, grouped, milliseconds};
use rayon::prelude::*;

use crate::report::args::ReportArgs;
use crate::report::html;
use crate::report::html::format::{self, percent};
use crate::terminal::progress::Bar;

/// Rows of a list that are open at first.
const ROWS: usize = 25;

/// Pages that are made at once, and then written.
const AT_ONCE: usize = 64;

/// Names of pages by the path of their program or library.
type Pages = HashMap<String, String>;

/// Reads the lines of a file, or of standard input for `-`.
///
/// # Errors
/// Returns an error if the lines cannot be read, or do not belong to a survey.
pub(crate) fn read(path: &Path) -> Result<Summary> {
    Ok(match path.as_os_str() == "-" {
        true => summary(io::stdin().lock())?,
        false => summary(BufReader::new(open_stream(path)?))?,
    })
}

/// Makes a page of each listed program and library whose file is here, and gives `write` its name and text. Nothing
/// is run.
///
/// # Errors
/// Returns an error if a page cannot be made or written.
pub(crate) fn pages(
    summary: &Summary,
    args: &ReportArgs,
    write: impl Fn(&str, &str) -> Result<()>,
) -> Result<Pages> {
    let listed = summary.worst.iter().chain(&summary.worst_libraries);
    let listed: Vec<_> = (1..).zip(listed.map(|(path, _)| path)).collect();
    let bar = Bar::of(listed.len());
    let mut pages = Pages::new();
    for some in listed.chunks(AT_ONCE) {
        let made: Result<Vec<_>> =
            some.par_iter().map(|(number, path)| own_page(*number, path, args)).collect();
        for ((_, path), page) in some.iter().zip(made?) {
            if let Some((name, text)) = page {
                write(&name, &text)?;
                pages.insert(String::clone(path), name);
            }
        }
        bar.add(some.len());
    }
    Ok(pages)
}

/// Returns name and text of a file's page; `None` if the file is not here or cannot be checked.
fn own_page(number: usize, path: &str, args: &ReportArgs) -> Result<Option<(String, String)>> {
    let file = Path::new(path);
    let Ok(report) = report(&Options { run: None, ..args.options(file)? }) else {
        return Ok(None);
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    Ok(Some((format!("{number}-{name}.html"), html::page(&report, None)?)))
}

/// Makes the page of a survey, with links to the others.
///
/// # Errors
/// Returns an error if the template cannot be rendered.
pub(crate) fn page(summary: &Summary, pages: &Pages) -> Result<String> {
    Page::of(summary, pages).render().context("the page cannot be made")
}

/// The page of a survey.
#[derive(Debug, Template)]
#[template(path = "survey.html")]
struct Page {
    files: String,
    verdict: String,
    figures: [(&'static str, u64); 4],
    lists: Vec<List>,
}

/// One list, most time and misses first.
#[derive(Debug, Default)]
struct List {
    title: &'static str,
    rows: Vec<Row>,
    left_out: String,
}

/// One row of a list.
#[derive(Debug)]
struct Row {
    name: String,
    /// The name of its own page.
    page: Option<String>,
    note: String,
    count: String,
    share: String,
}

impl List {
    /// Returns the rows that are open at first, and the others.
    fn parts(&self) -> (&[Row], &[Row]) {
        self.rows.split_at(self.rows.len().min(ROWS))
    }

    fn of<'a>(
        title: &'static str,
        rows: impl Iterator<Item = (&'a String, String, Lost)> + Clone,
        pages: &Pages,
    ) -> Self {
        let most = rows.clone().next().map_or(Lost::default(), |row| row.2);
        let row = |(name, note, Lost { ns, misses }): (&String, String, Lost)| {
            let count = counted(misses, "miss", "misses");
            Row {
                name: name.clone(),
                page: pages.get(name).cloned(),
                note,
                count: if ns > 0 { format!("{} ms, {count}", milliseconds(ns)) } else { count },
                share: match most.ns {
                    0 => percent(&misses, &most.misses),
                    most => percent(&ns, &most),
                },
            }
        };
        Self { title, rows: rows.map(row).collect(), left_out: String::new() }
    }

    fn of_groups(title: &'static str, groups: &Groups) -> Self {
        let note = |group: &Group| counted(group.files, "program", "programs");
        let groups = worst_first(groups);
        Self::of(title, groups.iter().map(|(name, of)| (*name, note(of), of.lost)), &Pages::new())
    }

    /// Lists single files, of so many.
    fn of_files(title: &'static str, worst: &[(String, Lost)], files: u64, pages: &Pages) -> Self {
        let left_out = match files.saturating_sub(worst.len() as u64) {
            0 => String::new(),
            more => format!("{} more lose less, or nothing", grouped(more)),
        };
        let rows = worst.iter().map(|(name, lost)| (name, String::new(), *lost));
        Self { left_out, ..Self::of(title, rows, pages) }
    }

    /// Lists the number of files by misses.
    fn by_size(sizes: &[u64]) -> Self {
        let most = sizes.iter().copied().max().unwrap_or(1);
        let row = |(tens, count): (usize, &u64)| Row {
            name: match tens {
                0 => "no misses".to_owned(),
                tens => {
                    let least = 10_u64.pow(tens as u32 - 1);
                    format!("{} to {} misses", grouped(least), grouped(10 * least - 1))
                }
            },
            page: None,
            note: String::new(),
            count: grouped(*count),
            share: percent(count, &most),
        };
        let rows = sizes.iter().enumerate().map(row).collect();
        Self { title: "Programs by misses", rows, ..Self::default() }
    }
}

impl Page {
    fn of(summary: &Summary, pages: &Pages) -> Self {
        let Summary { all, libraries, errors, packages, owners, libcs, .. } = summary;
        let files = counted(all.files, "program", "programs");
        let time = match all.lost.ns {
            0 => String::new(),
            ns => format!(" An index would save about {} ms of their starts.", milliseconds(ns)),
        };
        let verdict = format!(
            "{} of {files} search in vain: {} in all.{time}",
            grouped(summary.sizes.iter().skip(1).sum()),
            counted(all.lost.misses, "miss", "misses"),
        );
        let title = "Libraries, each loaded alone";
        Self {
            files,
            verdict,
            figures: [
                ("misses", all.lost.misses),
                ("of them in hwcaps subdirectories", all.hwcaps_misses),
                ("programs that lack a library", all.broken),
                ("files that could not be checked", *errors),
            ],
            lists: vec![
                List::of_files("Programs", &summary.worst, all.files, pages),
                List::of_groups("Packages and folders", packages),
                List::of_groups("Owners", owners),
                List::of_groups("C libraries", libcs),
                List::by_size(&summary.sizes),
                List::of_files(title, &summary.worst_libraries, libraries.files, pages),
            ],
        }
    }
}
