//! What a traced run is told as: a screen, its probes, or one JSON object.

mod classes;
mod histogram;
mod json;
mod logged;
mod screen;

use super::{Look, probes};
use crate::commands::trace::Report;
use crate::flags::TraceArgs;

pub(crate) use self::logged::logged;

/// The report in the form that was asked for.
#[must_use]
pub(crate) fn report(look: Look, args: &TraceArgs, report: &Report) -> Vec<u8> {
    if args.json {
        return json::report(report);
    }
    if args.probes {
        let images = report.images.iter();
        return images.map(|seen| probes::observed(look, &seen.probes)).collect::<String>().into();
    }
    screen::of(look, report, args.predict).into_bytes()
}
