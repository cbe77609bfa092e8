//! Output of a traced run: a screen, its probes, its files, or one JSON object.

use becalm_lib::json::document;
use becalm_lib::trace::report::Report;

use crate::check::files::text::Written;
use crate::terminal::probes;
use crate::terminal::style::Look;
use crate::trace::args::TraceArgs;
use crate::trace::{chrome, text};

/// Returns the report in the requested form.
pub(crate) fn report(look: Look, args: &TraceArgs, report: &Report) -> Vec<u8> {
    if args.format.is_some() {
        return chrome::document(report);
    }
    if args.json {
        return document(report);
    }
    if args.files {
        let mut written = Written::default();
        return report.images.iter().flat_map(|seen| written.lines(&seen.files, b'\n')).collect();
    }
    if args.probes {
        return probes(look, report).into();
    }
    text::of(look, report, args.predict).into_bytes()
}

/// Returns the probes of all images, one a line.
pub(crate) fn probes(look: Look, report: &Report) -> String {
    report.images.iter().map(|seen| probes::lines(look, seen.probes.iter())).collect()
}
