//! The strategies for a program on one screen.

use std::fmt::Write;

use becalm_lib::advice::Scope;
use becalm_lib::advise::{Choosable, Report};
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped};

use crate::terminal::style::Look;

/// The screen.
#[must_use]
pub(crate) fn screen(look: Look, report: &Report) -> String {
    let mut text = format!("{}\n", look.strong(&shown(report.path.as_ref())));
    if let Some(index) = &report.calmed_by {
        let left = counted(report.storm.misses(), "miss", "misses");
        let index = look.fitted(&shown(index.as_ref()), 12);
        let _ = writeln!(text, "  calmed by {index}\n  {left} in this session");
    }
    if report.options.is_empty() {
        let _ = writeln!(text, "  {}: nothing to gain", look.good("no misses"));
        return text;
    }
    let before = counted(report.before, "miss", "misses");
    let _ = writeln!(text, "  {} in one start, as it is", look.costly(&before));
    table(&mut text, look, report);
    conclusion(&mut text, look, report);
    text
}

fn table(text: &mut String, look: Look, report: &Report) {
    let heading = format!("{:<12} {:<29} {:>8} {:>8}", "strategy", "changes", "before", "after");
    let _ = writeln!(text, "\n  {}", look.strong(&heading));
    let before = grouped(report.before);
    let mut useless = Vec::new();
    for (at, option) in report.options.iter().enumerate() {
        let choice = &option.choice;
        if choice.misses.is_some_and(|left| left >= report.before) {
            useless.push(format!("{} ({})", choice.strategy, choice.scope.words()));
            continue;
        }
        let after = choice.misses.map_or_else(|| "-".to_owned(), grouped);
        let changes = choice.scope.words();
        let row = format!("{:<12} {changes:<29} {before:>8} {after:>8}", choice.strategy);
        let row = if report.best == Some(at) { look.good(&row) } else { row };
        let remark = remark(option);
        let _ = writeln!(text, "  {row}{}", look.faint(&look.fitted(&remark, 62)));
    }
    if !useless.is_empty() {
        let _ =
            writeln!(text, "  {}", look.faint(&format!("gain nothing: {}", useless.join(", "))));
    }
}

fn remark(option: &Choosable) -> String {
    match &option.choice.refused {
        Some(why) => format!("  {why}"),
        None if option.choice.needs_reader => "  with a loader of becalm loader build".to_owned(),
        None => String::new(),
    }
}

/// Returns the best commands: one that changes no file, and one that changes files.
fn conclusion(text: &mut String, look: Look, report: &Report) {
    let mut lines = Vec::new();
    if let Some(beside) = report.best_of(Scope::Nothing) {
        lines.push(("no file changes", beside.command.clone()));
        let stores = report.assumed_store.iter().chain(&report.named_stores);
        let stores: Vec<String> = stores.map(|store| shown(store.as_ref())).collect();
        let store = if stores.is_empty() { "STORE...".to_owned() } else { stores.join(" ") };
        let session = format!("becalm index {store} && eval \"$(becalm env)\"");
        lines.push(("a whole session", session));
    }
    if let Some(program) = report.best_of(Scope::Program) {
        lines.push(("in this file", program.command.clone()));
    }
    if let Some(closure) = report.best_of(Scope::Closure) {
        lines.push(("with its libraries", closure.command.clone()));
    }
    text.push('\n');
    for (what, command) in lines {
        let _ = writeln!(text, "  {what:<18}  {command}");
    }
    if let Some(store) = &report.assumed_store {
        let store = shown(store.as_ref());
        let _ =
            writeln!(text, "  {}", look.faint(&format!("if packages below {store} never change")));
    }
}
