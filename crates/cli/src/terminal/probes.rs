//! Every probe, one a line: call, outcome, search source, requester, path.

use std::borrow::Borrow;
use std::fmt::Write;

use becalm_core::path;
use becalm_core::probe::{Outcome, Probe};
use becalm_lib::escape::shown;

use crate::terminal::style::Look;

/// Returns probes in their order, a line each.
pub(crate) fn lines(look: Look, probes: impl Iterator<Item = impl Borrow<Probe>>) -> String {
    let mut text = String::new();
    for probe in probes {
        let Probe { call, outcome, source, needed_by, path, .. } = probe.borrow();
        let word = format!("{outcome:<15}");
        let word = match outcome {
            Outcome::Hit => look.good(&word),
            outcome if outcome.is_failed_call() => look.costly(&word),
            _ => look.bad(&word),
        };
        let asking = match path::name(needed_by) {
            name if name.is_empty() => "?".to_owned(),
            name => shown(name),
        };
        let source = look.origin(&format!("{source:<12}"));
        let _ = writeln!(text, "{call} {word} {source} {asking} {}", shown(path.as_ref()));
    }
    text
}
