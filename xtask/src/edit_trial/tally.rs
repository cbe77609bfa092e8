//! Counts edits, refusals with their reasons, and failures by edit and machine.

use std::collections::BTreeMap;

use crate::tally::{Counts, SHOWN, table};

/// An edit of a file, or a tool that was run on edited files, with its result.
pub(super) struct Event {
    /// The machine of the file.
    pub(super) machine: String,
    /// The name of the edit.
    pub(super) kind: &'static str,
    pub(super) what: What,
}

/// The result of an edit.
#[derive(Debug)]
pub(super) enum What {
    /// The edit was tried.
    Tried,
    /// The file had the requested values already.
    Nothing,
    /// The editor refused, for this reason; the file is unchanged.
    Refused(String),
    /// The file grew by so many bytes. True if its program header table had to move.
    Added(usize, bool),
    /// A rule is broken.
    Failed(&'static str, String),
    /// A tool was run on so many edited files.
    Ran(&'static str, usize),
}

impl What {
    /// Returns the name of its column.
    fn column(&self) -> &'static str {
        match self {
            Self::Tried => "tried",
            Self::Nothing => "nothing",
            Self::Refused(_) => "refused",
            Self::Added(_, true) => "moved",
            Self::Added(_, false) => "in place",
            Self::Failed(..) => "failed",
            Self::Ran(..) => "ran",
        }
    }
}

/// Counts events by their columns, in a row for each text that `of` returns.
fn rows<'a>(events: &'a [Event], of: impl Fn(&'a Event) -> &'a str) -> BTreeMap<&'a str, Counts> {
    let mut rows: BTreeMap<&str, Counts> = BTreeMap::new();
    for event in events {
        rows.entry(of(event)).or_default().add(event.what.column(), 1);
    }
    rows
}

/// Prints how often each edit has a text that `of` returns.
fn print_by_kind<'a>(title: &str, events: &'a [Event], of: impl Fn(&'a What) -> Option<&'a str>) {
    println!("{title}:");
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for event in events {
        if let Some(text) = of(&event.what) {
            *counts.entry((text, event.kind)).or_default() += 1;
        }
    }
    for ((text, kind), count) in counts {
        println!("{count:>8}  {kind:<14}{text}");
    }
}

/// Prints the counts and the first failures. Returns true if there is no failure.
pub(super) fn print(events: &[Event]) -> bool {
    let columns = ["tried", "nothing", "refused", "moved", "failed"].map(|name| (name, name));
    for (title, rows) in
        [("machine", rows(events, |it| &it.machine)), ("edit", rows(events, |it| it.kind))]
    {
        let rows = rows.iter().map(|(name, counts)| ((*name).to_owned(), counts));
        print!("{}", table(title, (16, 9), &columns, rows));
    }
    print_by_kind("refused", events, |what| match what {
        What::Refused(reason) => Some(reason),
        _ => None,
    });
    print_by_kind("broken rules", events, |what| match what {
        What::Failed(rule, _) => Some(rule),
        _ => None,
    });
    let (mut added, mut runs, mut failures) = (Vec::new(), Counts::default(), Vec::new());
    for event in events {
        match &event.what {
            What::Added(bytes, _) => added.push(bytes),
            What::Ran(tool, count) => runs.add(tool, *count),
            What::Failed(_, what) => failures.push(what),
            _ => {}
        }
    }
    added.sort_unstable();
    if let (Some(middle), Some(most)) = (added.get(added.len() / 2), added.last()) {
        println!("bytes added: median {middle}, most {most}");
    }
    for (tool, count) in runs.iter() {
        println!("runs on edited files: {tool:<12}{count:>8}");
    }
    failures.sort();
    failures.iter().take(SHOWN).for_each(|failure| println!("FAILED {failure}"));
    println!("{} failures", failures.len());
    failures.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_table_counts_for_machine_and_edit() {
        let event = |kind, what| Event { machine: "s390x/64be".to_owned(), kind, what };
        let events = [
            event("note", What::Tried),
            event("note", What::Added(1, true)),
            event("audit", What::Added(1, false)),
        ];
        assert_eq!(rows(&events, |event| &event.machine)["s390x/64be"].get("moved"), 1);
        let kinds = rows(&events, |event| event.kind);
        assert_eq!((kinds["note"].get("moved"), kinds["audit"].get("moved")), (1, 0));
    }
}
