//! Every probe, one a line: call, outcome, search source, requester, path.

use std::fmt::Write;

use becalm_core::closure::Closure;
use becalm_core::path;
use becalm_core::probe::{Call, Outcome, Probe, SearchSource};
use becalm_lib::escape::shown;
use bstr::BStr;

use crate::terminal::style::Look;

/// Returns the probes of a start in the loader's order; nothing for a file without a loader.
pub(crate) fn lines(look: Look, closure: Option<&Closure>) -> Vec<u8> {
    let mut text = String::new();
    let Some(closure) = closure else { return Vec::new() };
    let load = &closure.load;
    for probe in load.probes.iter() {
        let asking = &load.objects[load.resolutions[probe.resolution].needed_by];
        let how = (probe.call, probe.outcome, probe.source);
        push_line(&mut text, look, how, asking.path.as_ref(), probe.path);
    }
    text.into_bytes()
}

/// Returns observed probes in their order, in the same form.
pub(crate) fn observed(look: Look, probes: &[Probe]) -> String {
    let mut text = String::new();
    for probe in probes {
        let how = (probe.call, probe.outcome, probe.source);
        push_line(&mut text, look, how, probe.needed_by.as_ref(), probe.path.as_ref());
    }
    text
}

fn push_line(
    text: &mut String,
    look: Look,
    (call, outcome, source): (Call, Outcome, SearchSource),
    asking: &BStr,
    path: &BStr,
) {
    let word = format!("{outcome:<15}");
    let word = match outcome {
        Outcome::Hit => look.good(&word),
        outcome if outcome.is_failed_call() => look.costly(&word),
        _ => look.bad(&word),
    };
    let asking = match path::name(asking) {
        name if name.is_empty() => "?".to_owned(),
        name => shown(name),
    };
    let source = look.origin(&format!("{source:<12}"));
    let _ = writeln!(text, "{call} {word} {source} {asking} {}", shown(path));
}
