//! The measurement for a reader at a terminal.

use std::fmt::Write;

use becalm_lib::bench::{Figures, Report};
use becalm_lib::escape::shortened;
use becalm_lib::trace::report::words_of_pages;
use becalm_lib::words::milliseconds;

use crate::bench::distribution::{Axis, blocks};
use crate::bench::output::{WATCHED, name, ratio_words, setting, watched_cells};
use crate::terminal::aligned;
use crate::terminal::style::Look;

/// Columns of a distribution.
const BINS: usize = 40;

/// Width in columns to which names are cut.
const WIDEST: usize = 48;

/// Formats the measurement.
pub(crate) fn text(look: Look, report: &Report) -> String {
    let names = names(report);
    let mut text =
        format!("{}\n{}\n", look.strong(&report.first_line.to_string()), setting(report));
    text.push_str(&times(&names, look, report));
    text.push_str(&distributions(&names, look, report));
    if report.cold {
        text.push_str(&disk(&names, look, report));
    }
    text.push_str(&watched(&names, look, report));
    for note in &report.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{}", look.costly(&format!("note: {note}")));
    }
    text
}

/// Returns the names of the variants, as wide as the longest.
fn names(report: &Report) -> Vec<String> {
    let variants = report.variants.iter();
    let names: Vec<String> = variants.map(|variant| shortened(&name(variant), WIDEST)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    names.iter().map(|name| format!("{name:width$}")).collect()
}

/// Returns a heading, and the rows of the variants that have one beside their names; nothing without a row.
fn table(names: &[String], heading: &str, rows: impl Iterator<Item = Option<String>>) -> String {
    let row = |(name, row): (&String, Option<String>)| {
        Some(format!("  {name}  {}", row?).trim_end().to_owned() + "\n")
    };
    let rows: Vec<String> = names.iter().zip(rows).filter_map(row).collect();
    match rows.as_slice() {
        [] => String::new(),
        rows => format!(
            "\n  {:width$}  {heading}\n{}",
            "",
            rows.concat(),
            width = names[0].chars().count()
        ),
    }
}

fn times(names: &[String], look: Look, report: &Report) -> String {
    let timed_cpu = report.variants.iter().any(|variant| variant.cpu_median_ns.is_some());
    let cpu_column = |text: &str| if timed_cpu { format!("{text:>9}  ") } else { String::new() };
    let (median, cpu) = ("median ms", cpu_column("CPU ms"));
    let heading = look.strong(&format!("{median:>10}  {:>17}  {cpu}times the first", "quartiles"));
    let row = |variant: &Figures| {
        let [low, median, high] =
            [variant.low_ns, variant.median_ns, variant.high_ns].map(milliseconds);
        let quartiles = format!("{low} – {high}");
        let cpu = variant.cpu_median_ns.map(milliseconds).unwrap_or_default();
        let words = ratio_words(variant.ratio);
        let ratio = match variant.ratio {
            Some(ratio) if variant.control || ratio.holds_one() => words,
            Some(ratio) if ratio.ratio < 1.0 => look.good(&words),
            Some(_) => look.costly(&words),
            None => words,
        };
        Some(format!("{median:>10}  {quartiles:>17}  {}{ratio}", cpu_column(&cpu)))
    };
    table(names, &heading, report.variants.iter().map(row))
}

/// Returns what cold starts waited for and read.
fn disk(names: &[String], look: Look, report: &Report) -> String {
    let heading = look.strong(&format!("{:>15}  {:>8}", "waits for pages", "read MiB"));
    let row = |figures: &Figures| {
        let mib = figures.read_bytes? as f64 / f64::from(1 << 20);
        Some(format!("{:>15}  {mib:>8.1}", figures.major_faults?))
    };
    table(names, &heading, report.variants.iter().map(row))
}

/// Returns the observations in further starts of all variants except the control, and the waits for pages of the
/// traced cold starts.
fn watched(names: &[String], look: Look, report: &Report) -> String {
    let watched = || report.variants.iter().map(|variant| variant.watched.as_ref());
    let rows: Vec<_> = watched().map(|watched| watched.map(watched_cells)).collect();
    let all = [WATCHED.map(ToOwned::to_owned)].into_iter().chain(rows.iter().flatten().cloned());
    let mut lines = aligned(&all.collect::<Vec<_>>()).into_iter();
    let heading = look.strong(&lines.next().unwrap_or_default());
    let waited = watched().map(|watched| words_of_pages(watched?.pages.as_ref()?));
    table(names, &heading, rows.iter().map(|row| row.as_ref().and_then(|_| lines.next())))
        + &table(names, &look.strong("one traced cold start"), waited)
}

fn distributions(names: &[String], look: Look, report: &Report) -> String {
    let axis = Axis::of(&report.variants);
    let [from, to] = [axis.from, axis.to].map(|ns| format!("{} ms", milliseconds(ns as u64)));
    let ends = look.faint(&format!("{from:<half$}{to:>half$}", half = BINS / 2));
    let row = |variant: &Figures| {
        let blocks = look.origin(&blocks(&axis.bins(&variant.wall_ns, BINS)));
        let beyond = variant.wall_ns.iter().filter(|ns| **ns as f64 > axis.to).count();
        let beyond = if beyond > 0 { format!(" {beyond} beyond") } else { String::new() };
        Some(blocks + &look.faint(&beyond))
    };
    table(names, &ends, report.variants.iter().map(row))
}
