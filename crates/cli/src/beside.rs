//! Prediction and observation side by side: the counts of both, and their differences.

use std::fmt::Write;

use becalm_lib::beside::{Beside, Differing, How};
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped};

use crate::terminal::style::Look;

/// Returns the counts side by side, then at most `most` differences.
pub(crate) fn table(look: Look, beside: &Beside, most: usize) -> String {
    let mut text = String::new();
    let (p, o) = (&beside.predicted, &beside.observed);
    let heading = format!("{:<14}{:>10}  {:>10}", "", "predicted", "observed");
    let _ = writeln!(text, "  {}", look.strong(&heading));
    for (name, predicted, observed) in [
        ("probes", p.probes, o.probes),
        ("hits", p.hits, o.hits),
        ("failed opens", p.missed_opens, o.missed_opens),
        ("failed stats", p.missed_stats, o.missed_stats),
    ] {
        let row = format!("{name:<14}{:>10}  {:>10}", grouped(predicted), grouped(observed));
        let row = if predicted == observed { row } else { look.bad(&row) };
        let _ = writeln!(text, "  {row}");
    }
    let _ = writeln!(text, "  {}", verdict(look, beside));
    for differing in beside.differences.iter().take(most) {
        let _ = writeln!(text, "  {}", line(look, differing));
    }
    if beside.differences.len() > most {
        let more = grouped((beside.differences.len() - most) as u64);
        let _ = writeln!(text, "  and {more} more; --json has all");
    }
    text
}

/// Says in one line how far the two agree.
pub(crate) fn verdict(look: Look, beside: &Beside) -> String {
    let mut text = if beside.equal {
        let probes = counted(beside.observed.probes, "probe", "probes");
        look.good(&format!("as predicted: {probes}, the same in sequence"))
    } else {
        let differences = beside.differences.len() as u64;
        look.bad(&counted(differences, "difference from", "differences from")) + " the prediction"
    };
    if beside.not_reached > 0 {
        let probes = counted(beside.not_reached as u64, "predicted probe", "predicted probes");
        let _ = write!(text, "; {probes} not reached");
    }
    text
}

fn line(look: Look, differing: &Differing) -> String {
    let probe = &differing.probe;
    let (mark, how) = match differing.how {
        How::Unobserved => ("-", "not seen".to_owned()),
        How::Unpredicted => ("+", "not predicted".to_owned()),
        How::Outcome => {
            let predicted = differing.predicted_outcome.map(|it| it.to_string());
            let predicted = predicted.unwrap_or_default();
            ("!", format!("predicted {predicted}"))
        }
    };
    let asking = match becalm_core::path::name(&probe.needed_by) {
        name if name.is_empty() => String::new(),
        name => format!(", {} asks", shown(name)),
    };
    format!(
        "{} step {}: {} {} {} ({how}{asking})",
        look.bad(mark),
        differing.at,
        probe.call,
        probe.outcome,
        shown(probe.path.as_ref()),
    )
}
