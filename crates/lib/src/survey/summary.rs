//! Totals of a survey: the lines that `becalm check --ndjson` wrote, of one machine or of many.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Context, Result, bail};
use becalm_core::cost::SearchCost;
use serde::{Deserialize, Serialize};

use crate::check::Kind;
use crate::json::{self, Report};
use crate::survey::Surveyed;

/// The number of programs, and of libraries, that are listed: some megabytes of a page.
const WORST: usize = 10_000;

/// The counts of a survey. A library's start is part of those of the programs that load it, so libraries are
/// apart, and in no other count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// All programs that were checked.
    pub all: Group,
    /// All libraries that were checked.
    pub libraries: Group,
    /// Files that could not be checked.
    pub errors: u64,
    /// By package. Files outside the stores count by their directory.
    pub packages: Groups,
    /// By owner of the file.
    pub owners: Groups,
    /// By C library and release.
    pub libcs: Groups,
    /// The programs that lose most.
    pub worst: Vec<(String, Lost)>,
    /// The libraries that lose most, as if each were loaded alone.
    pub worst_libraries: Vec<(String, Lost)>,
    /// The number of programs by misses: none, up to 9, up to 99, and so on by tens.
    pub sizes: Vec<u64>,
}

/// Loss of a start, ordered by time first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Lost {
    /// The estimated time that an index saves, in nanoseconds; 0 if the lines have no estimates (`--times`).
    pub ns: u64,
    /// Failing opens and stats.
    pub misses: u64,
}

/// The counts of some programs or libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Files.
    pub files: u64,
    /// Loss of all their starts, once each.
    pub lost: Lost,
    /// Those in hwcaps subdirectories.
    pub hwcaps_misses: u64,
    /// Files with a needed string that nothing answers, or whose start the loader would end.
    pub broken: u64,
}

/// The counts of groups of programs, by name.
pub type Groups = BTreeMap<String, Group>;

/// The fields of a line that are read.
#[derive(Deserialize)]
struct Line {
    schema: String,
    path: String,
    #[serde(default)]
    kind: String,
    error: Option<String>,
    package: Option<String>,
    owner: Option<String>,
    uid: Option<u32>,
    libc: Option<String>,
    #[serde(default)]
    storm: SearchCost,
    estimate: Option<Times>,
    #[serde(default)]
    unresolved: Vec<serde::de::IgnoredAny>,
    stop: Option<String>,
}

#[derive(Deserialize)]
struct Times {
    loader_ns: u64,
    indexed_ns: Option<u64>,
}

/// Adds up the lines of a survey. Empty lines are skipped.
///
/// # Errors
/// Returns an error if a line cannot be read or is not one of a survey, or if the survey has no line.
pub fn summary(lines: impl BufRead) -> Result<Summary> {
    let mut summary = Summary::default();
    for (number, line) in (1..).zip(lines.split(b'\n')) {
        let line = line.context("cannot be read")?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(&line)
            .with_context(|| format!("line {number} is not a line of becalm check --ndjson"))?;
        if line.schema != Surveyed::SCHEMA {
            bail!("line {number} is of schema {}, not {}", line.schema, Surveyed::SCHEMA);
        }
        summary.add(line);
    }
    if summary.all.files + summary.libraries.files + summary.errors == 0 {
        bail!("no line of becalm check --ndjson");
    }
    keep_worst(&mut summary.worst);
    keep_worst(&mut summary.worst_libraries);
    Ok(summary)
}

impl Summary {
    fn add(&mut self, line: Line) {
        if line.error.is_some() {
            self.errors += 1;
            return;
        }
        let misses = line.storm.misses();
        let saved = line.estimate.and_then(|it| Some(it.loader_ns.saturating_sub(it.indexed_ns?)));
        let lost = Lost { ns: saved.unwrap_or_default(), misses };
        let group = Group {
            files: 1,
            lost,
            hwcaps_misses: line.storm.hwcaps_misses,
            broken: u64::from(!line.unresolved.is_empty() || line.stop.is_some()),
        };
        if line.kind == json::name(&Kind::Library) {
            self.libraries.add(group);
            add_worst(&mut self.worst_libraries, line.path, lost);
            return;
        }
        let place = line.package.unwrap_or_else(|| directory(&line.path).to_owned());
        let owner = line.owner.or_else(|| line.uid.map(|uid| uid.to_string()));
        let libc = line.libc.unwrap_or_else(|| "none".to_owned());
        self.all.add(group);
        self.packages.entry(place).or_default().add(group);
        self.owners.entry(owner.unwrap_or_else(|| "unknown".to_owned())).or_default().add(group);
        self.libcs.entry(libc).or_default().add(group);
        let size = misses.checked_ilog10().map_or(0, |tens| tens as usize + 1);
        let sizes = &mut self.sizes;
        sizes.resize(sizes.len().max(size + 1), 0);
        sizes[size] += 1;
        add_worst(&mut self.worst, line.path, lost);
    }
}

impl Group {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.lost.ns += other.lost.ns;
        self.lost.misses += other.lost.misses;
        self.hwcaps_misses += other.hwcaps_misses;
        self.broken += other.broken;
    }
}

fn add_worst(worst: &mut Vec<(String, Lost)>, path: String, lost: Lost) {
    if lost > Lost::default() {
        worst.push((path, lost));
    }
    if worst.len() > 2 * WORST {
        keep_worst(worst);
    }
}

fn keep_worst(worst: &mut Vec<(String, Lost)>) {
    worst.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    worst.truncate(WORST);
}

/// Returns groups with their names, most time and misses first.
#[must_use]
pub fn worst_first(groups: &Groups) -> Vec<(&String, &Group)> {
    let mut groups: Vec<_> = groups.iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.lost));
    groups
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(dir, _)| dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(ns: u64, misses: u64) -> Lost {
        Lost { ns, misses }
    }

    fn line(path: &str, package: &str, opens: u64) -> String {
        format!(
            r#"{{"schema":"becalm/survey/1","path":"{path}","package":{package},"uid":7,"owner":null,"libc":"glibc-2.36","storm":{{"objects":1,"search_dirs":0,"probes":0,"hits":0,"missed_opens":{opens},"missed_stats":0,"hwcaps_misses":1}},"unresolved":["x"],"stop":null}}"#
        ) + "\n"
    }

    #[test]
    fn lines_are_added_up_by_package_owner_and_size() {
        let text = line("/s/a/1", "\"/s/a\"", 5)
            + &line("/s/a/2", "\"/s/a\"", 100)
            + &line("/usr/bin/x", "null", 0)
            + &line("/s/a/lib.so", "\"/s/a\"", 900)
                .replace("\"path\"", "\"kind\":\"library\",\"path\"")
            + "\n{\"schema\":\"becalm/survey/1\",\"path\":\"/gone\",\"error\":\"No such file\"}\n";
        let summary = summary(text.as_bytes()).expect("lines of a survey");
        assert_eq!((summary.all.files, summary.all.lost.misses, summary.errors), (3, 105, 1));
        assert_eq!((summary.libraries.files, summary.libraries.lost.misses), (1, 900));
        assert_eq!(summary.worst_libraries, [("/s/a/lib.so".to_owned(), lost(0, 900))]);
        let names = |groups| worst_first(groups).into_iter().map(|(name, _)| name.clone());
        assert_eq!(names(&summary.packages).collect::<Vec<_>>(), ["/s/a", "/usr/bin"]);
        assert_eq!((summary.packages["/s/a"].files, summary.owners["7"].broken), (2, 3));
        let of = |path: &str, ns, misses| (path.to_owned(), lost(ns, misses));
        assert_eq!(summary.worst, [of("/s/a/2", 0, 100), of("/s/a/1", 0, 5)]);
        assert_eq!(summary.sizes, [1, 1, 0, 1]);
        let slow = line("/usr/bin/x", "null", 1)
            .replace("\"storm\"", "\"estimate\":{\"loader_ns\":9,\"indexed_ns\":2},\"storm\"");
        let summary = self::summary((text + &slow).as_bytes()).expect("lines of a survey");
        assert_eq!(summary.worst[0], of("/usr/bin/x", 7, 1));
        assert_eq!(names(&summary.packages).next().as_deref(), Some("/usr/bin"));
    }

    #[test]
    fn a_line_of_another_schema_is_refused_with_its_number() {
        let error =
            summary(&b"\n{\"schema\":\"other\",\"path\":\"/x\"}\n"[..]).expect_err("refused");
        assert_eq!(error.to_string(), "line 2 is of schema other, not becalm/survey/1");
        let error = summary(&b"\n"[..]).expect_err("refused");
        assert_eq!(error.to_string(), "no line of becalm check --ndjson");
        let error = summary(&b"{}\n"[..]).expect_err("refused");
        assert!(error.to_string().starts_with("line 1 is not a line"), "{error}");
    }
}
