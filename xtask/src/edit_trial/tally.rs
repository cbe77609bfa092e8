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

/// The result of an edit: its column, and what it says.
///
/// `tried`, and then `nothing` if the file had the requested values already, `refused` with the reason of the
/// editor, `moved` or `in place` with the bytes by which the file grew, if its program header table had to move
/// or not, or `failed` with a broken rule. `ran` has a tool that was run on edited files.
pub(super) type What = (&'static str, String);

/// Returns the result of an edit that breaks a rule.
pub(super) fn failed(rule: &str, what: &str) -> What {
    ("failed", format!("{rule}\n  {what}"))
}

/// Counts events by their columns, in a row for each text that `of` returns.
fn rows<'a>(events: &'a [Event], of: impl Fn(&'a Event) -> &'a str) -> BTreeMap<&'a str, Counts> {
    let mut rows: BTreeMap<&str, Counts> = BTreeMap::new();
    for event in events {
        rows.entry(of(event)).or_default().add(event.what.0, 1);
    }
    rows
}

/// Returns the texts of a column.
fn texts<'a>(events: &'a [Event], column: &str) -> impl Iterator<Item = (&'a str, &'static str)> {
    let of_column = events.iter().filter(move |event| event.what.0 == column);
    of_column.map(|event| (&*event.what.1, event.kind))
}

/// Prints how often each edit has a text in a column, up to a line's end.
fn print_by_kind(title: &str, events: &[Event], column: &'static str) {
    println!("{title}:");
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (text, kind) in texts(events, column) {
        *counts.entry((text.lines().next().unwrap_or_default(), kind)).or_default() += 1;
    }
    for ((text, kind), count) in counts {
        println!("{count:>8}  {kind:<14}{text}");
    }
}

/// Prints the counts and the first failures. Returns true if there is no failure.
pub(super) fn print(events: &[Event]) -> bool {
    let columns = ["tried", "nothing", "refused", "moved", "failed"];
    for (title, rows) in
        [("machine", rows(events, |it| &it.machine)), ("edit", rows(events, |it| it.kind))]
    {
        let rows = rows.iter().map(|(name, counts)| ((*name).to_owned(), counts));
        print!("{}", table(title, (16, 9), &columns, rows));
    }
    print_by_kind("refused", events, "refused");
    print_by_kind("broken rules", events, "failed");
    print_by_kind("runs on edited files", events, "ran");
    let added = texts(events, "moved").chain(texts(events, "in place"));
    let mut added: Vec<u64> = added.filter_map(|(bytes, _)| bytes.parse().ok()).collect();
    added.sort_unstable();
    if let (Some(middle), Some(most)) = (added.get(added.len() / 2), added.last()) {
        println!("bytes added: median {middle}, most {most}");
    }
    let mut failures: Vec<_> = texts(events, "failed").collect();
    failures.sort_unstable();
    failures.iter().take(SHOWN).for_each(|(failure, kind)| println!("FAILED {kind}: {failure}"));
    println!("{} failures", failures.len());
    failures.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_table_counts_for_machine_and_edit() {
        let event = |kind, column| {
            let what = (column, "1".to_owned());
            Event { machine: "s390x/64be".to_owned(), kind, what }
        };
        let events = [event("note", "tried"), event("note", "moved"), event("audit", "in place")];
        assert_eq!(rows(&events, |event| &event.machine)["s390x/64be"].get("moved"), 1);
        let kinds = rows(&events, |event| event.kind);
        assert_eq!((kinds["note"].get("moved"), kinds["audit"].get("moved")), (1, 0));
    }
}
