//! Counts files, edits, refusals with their reasons, and failures by edit and machine.

use std::collections::BTreeMap;

use super::files::File;
use crate::tally::{Counts, table};

/// The results of the trial so far.
#[derive(Default)]
pub(super) struct Tally {
    /// Edits tried, by machine.
    machines: BTreeMap<String, Counts>,
    /// Edits tried, by kind.
    kinds: BTreeMap<String, Counts>,
    refusals: BTreeMap<(String, String), usize>,
    rules: BTreeMap<(&'static str, String), usize>,
    failures: Vec<String>,
    added: Vec<usize>,
    programs: usize,
    /// Number of edited files on which each tool was run.
    runs: BTreeMap<&'static str, usize>,
}

/// Edits tried; files that had the requested values already; edits refused; files whose program header
/// table had to move; edits failed.
const COLUMNS: [&str; 5] = ["tried", "nothing", "refused", "moved", "failed"];

impl Tally {
    pub(super) fn tried(&mut self, file: &File, kind: &str) {
        self.count(file, kind, "tried", 1);
    }

    pub(super) fn nothing(&mut self, file: &File, kind: &str) {
        self.count(file, kind, "nothing", 1);
    }

    pub(super) fn refused(&mut self, file: &File, kind: &str, reason: &str) {
        self.count(file, kind, "refused", 1);
        *self.refusals.entry((reason.to_owned(), kind.to_owned())).or_default() += 1;
    }

    pub(super) fn failure(&mut self, file: &File, kind: &str, rule: &'static str, what: &str) {
        self.count(file, kind, "failed", 1);
        *self.rules.entry((rule, kind.to_owned())).or_default() += 1;
        self.failures.push(format!("{} {kind}: {rule}: {what}", file.path.display()));
    }

    /// Counts the bytes by which an edited file grew, and if its table moved.
    pub(super) fn added(&mut self, file: &File, kind: &str, bytes: usize, table_moved: bool) {
        self.added.push(bytes);
        self.count(file, kind, "moved", usize::from(table_moved));
    }

    pub(super) fn runs(&mut self, runs: BTreeMap<&'static str, usize>) {
        for (tool, count) in runs {
            *self.runs.entry(tool).or_default() += count;
        }
    }

    fn count(&mut self, file: &File, kind: &str, what: &'static str, number: usize) {
        self.machines.entry(file.machine.clone()).or_default().add(what, number);
        self.kinds.entry(kind.to_owned()).or_default().add(what, number);
    }

    pub(super) fn program(&mut self, name: &str, difference: Option<String>) {
        self.programs += 1;
        self.failures.extend(difference.map(|what| format!("{name}: {what}")));
    }

    pub(super) fn add(&mut self, other: Self) {
        for (mine, theirs) in [(&mut self.machines, other.machines), (&mut self.kinds, other.kinds)]
        {
            for (key, counts) in theirs {
                mine.entry(key).or_default().merge(&counts);
            }
        }
        for (key, count) in other.refusals {
            *self.refusals.entry(key).or_default() += count;
        }
        for (key, count) in other.rules {
            *self.rules.entry(key).or_default() += count;
        }
        self.failures.extend(other.failures);
        self.added.extend(other.added);
        self.runs(other.runs);
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    pub(super) fn print(&mut self, show: usize) {
        for (title, rows) in [("machine", &self.machines), ("edit", &self.kinds)] {
            let rows = rows.iter().map(|(name, counts)| (name.clone(), counts));
            let columns = COLUMNS.map(|name| (name, name));
            print!("{}", table(title, (16, 9), &columns, rows));
        }
        println!("refused:");
        for ((reason, kind), count) in &self.refusals {
            println!("{count:>8}  {kind:<14}{reason}");
        }
        println!("broken rules:");
        for ((rule, kind), count) in &self.rules {
            println!("{count:>8}  {kind:<14}{rule}");
        }
        self.added.sort_unstable();
        if let (Some(middle), Some(most)) =
            (self.added.get(self.added.len() / 2), self.added.last())
        {
            println!("bytes added: median {middle}, most {most}");
        }
        for (tool, count) in &self.runs {
            println!("runs on edited files: {tool:<12}{count:>8}");
        }
        println!("programs run: {}", self.programs);
        self.failures.sort();
        for failure in self.failures.iter().take(show) {
            println!("FAILED {failure}");
        }
        println!("{} failures", self.failures.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_table_counts_for_machine_and_edit() {
        let machine = "s390x/64be".to_owned();
        let file = File { path: "/a".into(), machine: machine.clone(), root: None };
        let mut one = Tally::default();
        one.tried(&file, "note");
        one.added(&file, "note", 1, true);
        one.added(&file, "audit", 1, false);
        let mut all = Tally::default();
        all.add(one);
        assert_eq!(all.machines[&machine].get("moved"), 1);
        assert_eq!((all.kinds["note"].get("moved"), all.kinds["audit"].get("moved")), (1, 0));
    }
}
