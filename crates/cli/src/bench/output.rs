//! Output of a measurement: text with distributions, or one of the forms that other programs read.

use becalm_host::bench::stats::Ratio;
use becalm_lib::bench::{Figures, Report, Watched};
use becalm_lib::relocations::Relocations;
use becalm_lib::words::{counted, grouped, milliseconds};

/// Returns one line that describes the measurement.
pub(crate) fn setting(report: &Report) -> String {
    let span = match report.until {
        "exit" => "whole start",
        "idle" => "start to the first idle moment",
        _ => "execve to entry point",
    };
    let caches = if report.cold { "cold" } else { "warm" };
    let rounds = counted(report.rounds as u64, "round", "rounds");
    format!("{span}, {caches}, {rounds}, medians; ratios with their 95 % interval")
}

/// Returns a variant's name; for the control, a description.
pub(crate) fn name(variant: &Figures) -> String {
    if variant.control { "the first again (control)".to_owned() } else { variant.name.clone() }
}

/// The columns of the traced starts.
pub(crate) const WATCHED: [&str; 7] =
    ["loader ms", "misses", "relocation ms", "symbols", "bound", "misses after entry", "repeated"];

/// Returns the time of relocation, with its share of the loader's.
fn relocation(relocations: &Relocations) -> Option<String> {
    let ns = relocations.ns? as f64;
    let share = 100.0 * ns / relocations.loader_ns.max(1) as f64;
    Some(format!("{} ({share:.0} %)", milliseconds(ns as u64)))
}

/// Returns the cells of a variant for the columns of [`WATCHED`].
pub(crate) fn watched_cells(watched: &Watched) -> [String; 7] {
    let none = || "–".to_owned();
    let number = |number: Option<u64>| number.map_or_else(none, grouped);
    let relocations = watched.relocations.as_ref();
    let bindings = relocations.and_then(|relocations| relocations.bindings);
    [
        milliseconds(watched.loader_ns()),
        grouped(watched.misses),
        relocations.and_then(relocation).unwrap_or_else(none),
        number(relocations.map(|relocations| relocations.lookups)),
        bindings.map_or_else(none, |bindings| {
            let [bound, all] = [bindings.bound, bindings.relocations].map(|n| grouped(n.into()));
            format!("{bound} of {all}")
        }),
        number(watched.program_misses),
        number(watched.program_repeated),
    ]
}

/// Formats a ratio with its interval.
pub(crate) fn ratio_words(ratio: Option<Ratio>) -> String {
    let Some(Ratio { ratio, low, high, .. }) = ratio else { return "1".to_owned() };
    let digits = if ratio < 0.1 { 3 } else { 2 };
    match low.zip(high) {
        Some((from, to)) => format!("{ratio:.digits$} ({from:.digits$} to {to:.digits$})"),
        None => format!("{ratio:.digits$}"),
    }
}
