//! Output of a measurement: text with distributions, or one of the forms that other programs read.

use becalm_host::bench::Timed;
use becalm_host::bench::stats::Ratio;
use becalm_lib::bench::Report;
use becalm_lib::words::counted;

/// How it was measured, in one line.
pub(crate) fn setting(report: &Report) -> String {
    let span = match report.until {
        "exit" => "whole start",
        _ => "execve to entry point",
    };
    let caches = if report.cold { "cold" } else { "warm" };
    let rounds = counted(report.rounds as u64, "round", "rounds");
    format!("{span}, {caches}, {rounds}, medians; ratios with their 95 % interval")
}

/// A variant's name; the control says what it is.
pub(crate) fn name(timed: &Timed) -> String {
    if timed.control { "the first again (control)".to_owned() } else { timed.name.clone() }
}

/// A ratio with its interval.
pub(crate) fn ratio_words(ratio: Option<Ratio>) -> String {
    let Some(Ratio { ratio, interval }) = ratio else { return "1".to_owned() };
    let digits = if ratio < 0.1 { 3 } else { 2 };
    match interval {
        Some((from, to)) => format!("{ratio:.digits$} ({from:.digits$} to {to:.digits$})"),
        None => format!("{ratio:.digits$}"),
    }
}
