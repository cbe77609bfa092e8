//! A log of the audit module: a line a process, its probes, or one JSON object.

use std::fmt::Write;

use becalm_lib::escape::shown;
use becalm_lib::json::document;
use becalm_lib::trace::log::Report;
use becalm_lib::words::{counted, grouped};

use crate::terminal::probes;
use crate::terminal::style::Look;
use crate::trace::args::TraceArgs;

/// Returns the log in the requested form.
#[must_use]
pub(crate) fn logged(look: Look, args: &TraceArgs, report: &Report) -> Vec<u8> {
    if args.json {
        return document(report);
    }
    let mut text = String::new();
    for process in &report.images {
        if args.probes {
            text.push_str(&probes::observed(look, &process.probes));
            continue;
        }
        let path = look.strong(&shown(process.path.as_ref()));
        let lookups = counted(process.lookups as u64, "question", "questions");
        let answered = grouped(process.answered as u64);
        let misses = match process.missed_opens as u64 {
            0 => look.good("no failed opens"),
            number => look.costly(&counted(number, "failed open", "failed opens")),
        };
        let _ = writeln!(
            text,
            "{path} [{}]: {lookups}, {answered} answered by the index; {misses}",
            process.pid
        );
    }
    text.into_bytes()
}
