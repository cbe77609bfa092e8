//! The measurement for a reader at a terminal.

use std::fmt::Write;

use becalm_lib::bench::Report;
use becalm_lib::escape::shortened;
use becalm_lib::words::milliseconds;

use crate::bench::distribution::{Axis, blocks};
use crate::bench::output::{WATCHED, name, ratio_words, setting, watched_cells};
use crate::terminal::style::Look;

/// Columns of a distribution.
const BINS: usize = 40;

/// Width in columns to which names are cut.
const WIDEST: usize = 48;

/// Formats the measurement.
pub(crate) fn text(look: Look, report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", look.strong(&report.first_line.to_string()));
    let _ = writeln!(text, "{}\n", setting(report));
    table(&mut text, look, report);
    distributions(&mut text, look, report);
    disk(&mut text, look, report);
    watched(&mut text, look, report);
    for note in &report.notes {
        let _ = writeln!(text, "\n{}", look.costly(&format!("note: {note}")));
    }
    text
}

/// Returns the names of the variants, as wide as the longest.
fn names(report: &Report) -> Vec<String> {
    let variants = report.measured.variants.iter();
    let names: Vec<String> = variants.map(|timed| shortened(&name(timed), WIDEST)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    names.iter().map(|name| format!("{name:width$}")).collect()
}

/// Writes a heading beside the place of the names.
fn head(text: &mut String, names: &[String], heading: &str) {
    let width = names.first().map_or(0, |name| name.chars().count());
    let _ = writeln!(text, "  {:width$}  {heading}", "");
}

fn table(text: &mut String, look: Look, report: &Report) {
    let names = names(report);
    let timed_cpu = report.measured.variants.iter().any(|timed| timed.cpu_median_ns().is_some());
    let cpu_column = |text: &str| if timed_cpu { format!("{text:>9}  ") } else { String::new() };
    let heading = format!(
        "{:>10}  {:>17}  {}times the first",
        "median ms",
        "quartiles",
        cpu_column("CPU ms")
    );
    head(text, &names, &look.strong(&heading));
    for (timed, name) in report.measured.variants.iter().zip(&names) {
        let spread = timed.spread;
        let quartiles =
            format!("{} – {}", milliseconds(spread.low as u64), milliseconds(spread.high as u64));
        let cpu = cpu_column(
            &timed.cpu_median_ns().map_or_else(String::new, |ns| milliseconds(ns as u64)),
        );
        let words = ratio_words(timed.ratio);
        let ratio = match timed.ratio {
            Some(ratio) if timed.control || ratio.holds_one() => words,
            Some(ratio) if ratio.ratio < 1.0 => look.good(&words),
            Some(_) => look.costly(&words),
            None => words,
        };
        let _ = writeln!(
            text,
            "  {name}  {:>10}  {quartiles:>17}  {cpu}{ratio}",
            milliseconds(spread.median as u64)
        );
    }
}

/// Appends what cold starts waited for and read.
fn disk(text: &mut String, look: Look, report: &Report) {
    let names = names(report);
    let rows: Vec<_> = report
        .variants
        .iter()
        .zip(&names)
        .filter_map(|(it, name)| Some((name, it.major_faults?, it.read_bytes?)))
        .collect();
    if !report.cold || rows.is_empty() {
        return;
    }
    let heading = format!("{:>15}  {:>8}", "waits for pages", "read MiB");
    text.push('\n');
    head(text, &names, &look.strong(&heading));
    for (name, faults, bytes) in rows {
        let mib = bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(text, "  {name}  {faults:>15}  {mib:>8.1}");
    }
}

/// Appends the observations in further starts, of all variants except the control.
fn watched(text: &mut String, look: Look, report: &Report) {
    let names = names(report);
    let rows = report.variants.iter().zip(&names);
    let rows: Vec<_> = rows
        .filter_map(|(variant, name)| Some((name, watched_cells(variant.watched.as_ref()?))))
        .collect();
    if rows.is_empty() {
        return;
    }
    let widths: Vec<usize> = (0..WATCHED.len())
        .map(|at| {
            let cells = rows.iter().map(|(_, cells)| cells[at].chars().count());
            cells.chain([WATCHED[at].len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let heading = line(&WATCHED.map(ToOwned::to_owned));
    text.push('\n');
    head(text, &names, &look.strong(&heading));
    for (name, cells) in rows {
        let _ = writeln!(text, "  {name}  {}", line(&cells));
    }
    waited(text, look, report);
}

/// Appends the waits for pages of the traced cold starts.
fn waited(text: &mut String, look: Look, report: &Report) {
    let names = names(report);
    let rows = report.variants.iter().zip(&names).filter_map(|(variant, name)| {
        Some((name, variant.watched.as_ref()?.pages.as_ref()?.words()?))
    });
    for (at, (name, words)) in rows.enumerate() {
        if at == 0 {
            text.push('\n');
            head(text, &names, &look.strong("one traced cold start"));
        }
        let _ = writeln!(text, "  {name}  {words}");
    }
}

fn distributions(text: &mut String, look: Look, report: &Report) {
    let names = names(report);
    let axis = Axis::of(&report.measured);
    let ends = format!(
        "{:<half$}{:>half$}",
        format!("{} ms", milliseconds(axis.from as u64)),
        format!("{} ms", milliseconds(axis.to as u64)),
        half = BINS / 2
    );
    text.push('\n');
    head(text, &names, &look.faint(&ends));
    for (timed, name) in report.measured.variants.iter().zip(&names) {
        let blocks = blocks(&axis.bins(timed, BINS));
        let beyond = timed.runs.iter().filter(|run| run.wall_ns as f64 > axis.to).count();
        let beyond = if beyond > 0 { format!(" {beyond} beyond") } else { String::new() };
        let line = format!("  {name}  {}{}", look.origin(&blocks), look.faint(&beyond));
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
