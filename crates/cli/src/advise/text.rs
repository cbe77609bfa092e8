//! The strategies for a program on one screen.

use std::fmt::Write;

use becalm_lib::advice::{Scope, quoted};
use becalm_lib::advise::Report;
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped, milliseconds};

use crate::terminal::style::Look;

/// The screen.
pub(crate) fn screen(look: Look, report: &Report) -> String {
    let mut text = format!("{}\n", look.strong(&report.first_line.to_string()));
    let _ = writeln!(text, "{}", shown(report.path.as_ref()));
    if let Some(index) = &report.calmed_by {
        let left = counted(report.storm.misses(), "miss", "misses");
        let index = look.fitted(&shown(index.as_ref()), 12);
        let _ = writeln!(text, "  indexed by {index}\n  {left} in this session");
    }
    if report.advice.options.is_empty() {
        let _ = writeln!(text, "  {}: nothing to gain", look.good("no misses"));
        conclusion(&mut text, report);
        return text;
    }
    let before = counted(report.advice.before, "miss", "misses");
    let _ = writeln!(text, "  {} in one start, as it is", look.costly(&before));
    table(&mut text, look, report);
    conclusion(&mut text, report);
    text
}

/// Writes the strategies that gain, the least time first, then in one line each the others.
fn table(text: &mut String, look: Look, report: &Report) {
    let advice = &report.advice;
    let mut rows: Vec<_> = advice.options.iter().filter(|it| advice.is_worth(it)).collect();
    rows.sort_by_key(|choice| choice.cost());
    if !rows.is_empty() {
        let heading = format!("{:<12} {:<29} {:>8} {:>8}", "strategy", "changes", "misses", "ms");
        let _ = writeln!(text, "\n  {}", look.strong(&heading));
    }
    for (at, choice) in rows.iter().enumerate() {
        let misses = choice.misses.map_or_else(String::new, grouped);
        let ms = choice.loader_ns.map_or_else(|| "-".to_owned(), milliseconds);
        let changes = choice.scope.words();
        let row = format!("{:<12} {changes:<29} {misses:>8} {ms:>8}", choice.strategy);
        let _ = writeln!(text, "  {}", if at == 0 { look.good(&row) } else { row });
    }
    let with_loader = advice.options.iter().filter(|it| it.needs_reader);
    let mut with_loader: Vec<&str> = with_loader.map(|it| it.strategy.as_str()).collect();
    with_loader.sort_unstable();
    with_loader.dedup();
    let mut lines = advice.not_proposed();
    if !with_loader.is_empty() {
        lines.push(format!("{}: with a loader that has becalm's patches", with_loader.join(", ")));
    }
    for choice in &advice.options {
        if let Some(why) = &choice.refused {
            let (strategy, scope) = (&choice.strategy, choice.scope.words());
            lines.push(format!("{strategy}, which changes {scope}, cannot be used: {why}"));
        }
    }
    text.push('\n');
    for line in lines {
        let _ = writeln!(text, "  {}", look.faint(&line));
    }
}

/// Writes the commands: those that change no file, and those that change files.
fn conclusion(text: &mut String, report: &Report) {
    let advice = &report.advice;
    let mut lines = Vec::new();
    if let Some(beside) = advice.best(Scope::Nothing) {
        lines.push(("this start", beside.command.clone()));
        lines.push(("every start of it", format!("becalm on {}", quoted(&report.path))));
        let stores = advice.assumed_store.iter().chain(&report.named_stores);
        let stores: Vec<String> = stores.map(quoted).collect();
        if !stores.is_empty() {
            let session = format!("becalm index {} && eval \"$(becalm env)\"", stores.join(" "));
            lines.push(("a whole session", session));
        }
    }
    if report.networked {
        if lines.is_empty() {
            lines.push(("this start", format!("becalm run -- {}", quoted(&report.path))));
        }
        let ahead = "becalm run also looks up files on the network ahead, and reads copies of them";
        lines.push(("its imports", ahead.to_owned()));
    }
    let in_files = [("in this file", Scope::Program), ("with its libraries", Scope::Closure)];
    for (what, scope) in in_files {
        lines.extend(advice.best(scope).map(|choice| (what, choice.command.clone())));
    }
    if lines.is_empty() {
        return;
    }
    text.push('\n');
    for (what, command) in lines {
        let _ = writeln!(text, "  {what:<18}  {command}");
    }
    if let Some(store) = &advice.assumed_store {
        let _ = writeln!(text, "  if packages below {} never change", shown(store.as_ref()));
    }
}
