//! Counts: files, edits, refusals with their reasons, failures by edit and machine.

use std::collections::BTreeMap;

use super::files::File;

/// What came of the trial so far.
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
}

#[derive(Default)]
struct Counts {
    tried: usize,
    nothing: usize,
    refused: usize,
    moved: usize,
    failed: usize,
}

impl Tally {
    pub(super) fn tried(&mut self, file: &File, kind: &str) {
        self.machines.entry(file.machine.clone()).or_default().tried += 1;
        self.kinds.entry(kind.to_owned()).or_default().tried += 1;
    }

    pub(super) fn nothing(&mut self, kind: &str) {
        self.kinds.entry(kind.to_owned()).or_default().nothing += 1;
    }

    pub(super) fn refused(&mut self, file: &File, kind: &str, reason: &str) {
        self.machines.entry(file.machine.clone()).or_default().refused += 1;
        self.kinds.entry(kind.to_owned()).or_default().refused += 1;
        *self.refusals.entry((reason.to_owned(), kind.to_owned())).or_default() += 1;
    }

    pub(super) fn failure(&mut self, file: &File, kind: &str, rule: &'static str, what: &str) {
        self.machines.entry(file.machine.clone()).or_default().failed += 1;
        self.kinds.entry(kind.to_owned()).or_default().failed += 1;
        *self.rules.entry((rule, kind.to_owned())).or_default() += 1;
        self.failures.push(format!("{} {kind}: {rule}: {what}", file.path.display()));
    }

    /// Bytes by which an edited file grew, and whether its table moved.
    pub(super) fn added(&mut self, file: &File, bytes: usize, table_moved: bool) {
        self.added.push(bytes);
        self.machines.entry(file.machine.clone()).or_default().moved += usize::from(table_moved);
    }

    pub(super) fn program(&mut self, name: &str, difference: Option<String>) {
        self.programs += 1;
        self.failures.extend(difference.map(|what| format!("{name}: {what}")));
    }

    pub(super) fn add(&mut self, other: Self) {
        for (mine, theirs) in [(&mut self.machines, other.machines), (&mut self.kinds, other.kinds)]
        {
            for (key, counts) in theirs {
                let mine = mine.entry(key).or_default();
                mine.tried += counts.tried;
                mine.nothing += counts.nothing;
                mine.refused += counts.refused;
                mine.moved += counts.moved;
                mine.failed += counts.failed;
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
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    pub(super) fn print(&mut self, show: usize) {
        for (title, table) in [("machine", &self.machines), ("edit", &self.kinds)] {
            println!(
                "{title:<16}{:>8}{:>9}{:>9}{:>8}{:>8}",
                "tried", "nothing", "refused", "moved", "failed"
            );
            for (name, c) in table {
                println!("{name:<16}{:>8}{:>9}{:>9}{:>8}", c.tried, c.nothing, c.refused, c.failed);
            }
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
        println!("programs run: {}", self.programs);
        self.failures.sort();
        for failure in self.failures.iter().take(show) {
            println!("FAILED {failure}");
        }
        println!("{} failures", self.failures.len());
    }
}
