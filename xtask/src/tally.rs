//! Counts the results of trials, and keeps what differs.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Differences that a trial prints in full.
pub(crate) const SHOWN: usize = 40;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    pub(crate) fn add(&mut self, name: &'static str, number: usize) {
        *self.0.entry(name).or_default() += number;
    }

    pub(crate) fn merge(&mut self, more: &Self) {
        more.0.iter().for_each(|(name, number)| self.add(name, *number));
    }

    pub(crate) fn get(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// Returns a table: a line of titles, then one for each row.
pub(crate) fn table<'a>(
    title: &str,
    widths: (usize, usize),
    columns: &[&str],
    rows: impl Iterator<Item = (String, &'a Counts)>,
) -> String {
    let (first, other) = widths;
    let mut text = format!("{title:<first$}");
    text.extend(columns.iter().map(|name| format!("{name:>other$}")));
    for (row, counts) in rows {
        text += &format!("\n{row:<first$}");
        text.extend(columns.iter().map(|name| format!("{:>other$}", counts.get(name))));
    }
    text + "\n"
}

/// Counts by place and group, and what differs by the name of the start.
#[derive(Default)]
pub(crate) struct Tally {
    groups: BTreeMap<(String, String), Counts>,
    wrong: Vec<(String, String)>,
}

impl Tally {
    pub(crate) fn group(&mut self, place: &str, group: String) -> &mut Counts {
        self.groups.entry((place.to_owned(), group)).or_default()
    }

    pub(crate) fn differs(&mut self, start: String, what: String) {
        self.wrong.push((start, what));
    }

    /// Returns the number of differences.
    pub(crate) fn differences(&self) -> usize {
        self.wrong.len()
    }

    /// Returns the table, then the first differences in full.
    pub(crate) fn text(&self, widths: (usize, usize), columns: &[&str]) -> String {
        let rows = self.groups.iter().map(|((place, group), counts)| {
            let label = if group.is_empty() { place.clone() } else { format!("{place}: {group}") };
            (label, counts)
        });
        let mut text = table("", widths, columns, rows);
        for (name, what) in self.wrong.iter().take(SHOWN) {
            let _ = writeln!(text, "\n{name}\n  {what}");
        }
        if self.wrong.len() > SHOWN {
            let _ = writeln!(text, "\n… and {} more", self.wrong.len() - SHOWN);
        }
        text
    }
}
