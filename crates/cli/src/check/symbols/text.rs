//! The bindings of one start as text.

use std::fmt::Write;

use becalm_core::closure::Closure;
use becalm_core::symbols::SymbolReport;
use becalm_core::symbols::report::{BindingReport, InterposedSymbol, RelocationCounts};
use becalm_lib::check::{Kind, Program};
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped};
use bstr::BStr;

use crate::check::text::heading;
use crate::check::view::View;
use crate::terminal::style::Look;

/// Lines of each list that are shown; JSON has all.
const ROWS: usize = 10;

/// The symbols of each program.
pub(crate) struct Symbols;

impl View for Symbols {
    fn between(&self) -> &'static str {
        "\n"
    }

    fn program(&self, look: Look, program: &mut Program, _: Option<&Closure>) -> Vec<u8> {
        // The bindings, if requested, come last.
        let mut text = heading(look, program);
        match (&program.symbols, &program.kind) {
            (Some(report), _) => {
                relocations(&mut text, look, &report.relocations);
                missing(&mut text, look, report);
                interposed(&mut text, look, &report.interposed);
                definers(&mut text, look, report);
                for binding in report.bindings.iter().flatten() {
                    line(&mut text, look, binding);
                }
            }
            (None, Kind::Static) => text.push_str("  no loader is involved: nothing is bound\n"),
            (None, _) => text.push_str("  its symbols are not looked up\n"),
        }
        text.into_bytes()
    }
}

fn name(text: &str) -> String {
    shown(BStr::new(text))
}

fn versioned(symbol: &str, version: Option<&String>) -> String {
    let version = version.map(|version| format!("@{version}")).unwrap_or_default();
    name(&format!("{symbol}{version}"))
}

fn relocations(text: &mut String, look: Look, counts: &RelocationCounts) {
    let RelocationCounts { glob_dat, jump_slot, absolute, copy, irelative, tls, other, .. } =
        *counts;
    let relative = counts.relative + counts.relr;
    let all = relative + glob_dat + jump_slot + absolute + copy + irelative + tls + other;
    let all = counted(all as u64, "relocation", "relocations");
    let _ = write!(text, "\n  {}: {} relative", look.strong(&all), grouped(relative as u64));
    let lazy = match counts.lazy {
        0 => String::new(),
        lazy => format!(" ({} lazy)", grouped(lazy as u64)),
    };
    let kinds = [
        (jump_slot, format!("calls{lazy}")),
        (glob_dat, "GOT entries".to_owned()),
        (absolute, "addresses".to_owned()),
        (tls, "thread-local".to_owned()),
        (copy, "copied".to_owned()),
        (irelative, "IRELATIVE".to_owned()),
        (other, "others".to_owned()),
    ];
    for (count, kind) in kinds.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {} {kind}", grouped(*count as u64));
    }
    text.push('\n');
    let of = [
        (counts.ifunc, "bound by IFUNC"),
        (counts.unique, "unique"),
        (counts.undefined_weak, "weak and undefined"),
    ];
    let of = of.iter().filter(|(count, _)| *count > 0);
    let of: Vec<String> = of.map(|(n, what)| format!("{} {what}", grouped(*n as u64))).collect();
    if !of.is_empty() {
        let _ = writeln!(text, "  of these {}", of.join(", "));
    }
}

fn missing(text: &mut String, look: Look, report: &SymbolReport) {
    if report.undefined.is_empty() && report.missing_versions.is_empty() {
        let _ = writeln!(text, "  {}", look.good("no undefined symbol, no missing version"));
        return;
    }
    let title = |count: usize, one, several| match count {
        0 => String::new(),
        _ => format!("\n  {}\n", look.bad(&counted(count as u64, one, several))),
    };
    text.push_str(&title(report.undefined.len(), "undefined symbol", "undefined symbols"));
    for undefined in &report.undefined {
        let symbol = versioned(&undefined.symbol, undefined.version.as_ref());
        let lazy = if undefined.lazy { " (at the first call)" } else { "" };
        let _ = writeln!(text, "  {symbol}, needed by {}{lazy}", name(&undefined.object));
    }
    text.push_str(&title(report.missing_versions.len(), "missing version", "missing versions"));
    for missing in &report.missing_versions {
        let (library, object) = (name(&missing.library), name(&missing.object));
        let weak = if missing.weak { " (weak)" } else { "" };
        let version = name(&missing.version);
        let _ = writeln!(text, "  {version} of {library}, needed by {object}{weak}");
    }
}

fn interposed(text: &mut String, look: Look, interposed: &[InterposedSymbol]) {
    if interposed.is_empty() {
        return;
    }
    let copies = interposed.iter().filter(|symbol| symbol.copy).count();
    let title = counted(interposed.len() as u64, "interposed symbol", "interposed symbols");
    let _ = write!(text, "\n  {}", look.strong(&title));
    if copies > 0 {
        let _ = write!(text, ", {} of them copied into the program", grouped(copies as u64));
    }
    text.push('\n');
    // A copy relocation is the datum itself; readers look for the others.
    let others = interposed.iter().filter(|symbol| !symbol.copy);
    let mut others = others.peekable();
    for symbol in others.by_ref().take(ROWS) {
        let first = symbol.others.first().map_or("", String::as_str);
        let more = match symbol.others.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let label = versioned(&symbol.symbol, symbol.version.as_ref());
        let line = format!("{label}: {}, not {}{more}", name(&symbol.definer), name(first));
        let _ = writeln!(text, "  {}", look.fitted(&line, 2));
    }
    and_more(text, others.count());
}

fn definers(text: &mut String, look: Look, report: &SymbolReport) {
    if report.definers.is_empty() {
        return;
    }
    let mut counts: Vec<_> = report.definers.iter().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.symbols));
    let _ = writeln!(text, "\n  {}", look.strong("symbols that another object defines"));
    for count in counts.iter().take(ROWS) {
        let number = grouped(count.symbols as u64);
        let line = format!("{} for {}", name(&count.definer), name(&count.object));
        let _ = writeln!(text, "  {number:>7}  {}", look.fitted(&line, 11));
    }
    and_more(text, counts.len().saturating_sub(ROWS));
}

fn and_more(text: &mut String, left: usize) {
    if left > 0 {
        let _ = writeln!(text, "  and {} more; --json shows all", grouped(left as u64));
    }
}

/// One binding on one line.
fn line(text: &mut String, look: Look, binding: &BindingReport) {
    let BindingReport { object, offset, kind, value, addend, .. } = binding;
    let symbol = binding.symbol.as_deref().unwrap_or("-");
    let symbol = versioned(symbol, binding.version.as_ref());
    let object = name(object);
    let definer = match &binding.definer {
        Some(definer) => look.origin(&format!("{}+{value:#x}", name(definer))),
        None => look.bad("undefined"),
    };
    let _ = write!(text, "{object}+{offset:#x} {kind} {symbol} {definer}");
    if *addend != 0 {
        let _ = write!(text, " addend {addend:#x}");
    }
    let _ = writeln!(text, "{}", if binding.lazy { " lazy" } else { "" });
}
