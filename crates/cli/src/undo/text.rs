//! Text output of `becalm undo`, a line a file.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::undo::Report;
use becalm_lib::words::{counted, grouped};
use becalm_lib::writing::Outcome;

use crate::terminal::changed::{count, not_reached, tell_trouble};
use crate::terminal::style::Look;

/// Writes the summary; refused files are printed on stderr, a line each.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    tell_trouble(report.files.iter().chain(&report.removed));
    let would = if report.dry_run { "would be " } else { "" };
    let files = counted(count(&report.files, Outcome::is_written), "file", "files");
    writeln!(out, "{}", look.strong(&format!("{files} {would}restored")))?;
    for removed in report.removed.iter().filter(|removed| removed.outcome.is_written()) {
        writeln!(out, "{would}removed  {}", shown(removed.path.as_ref()))?;
    }
    for kept in &report.kept {
        let others = counted(kept.others as u64, "other object", "other objects");
        let cache = shown(kept.path.as_ref());
        writeln!(
            out,
            "kept  {cache}: answers for {others} of its package; becalm undo of the package removes it"
        )?;
    }
    let unchanged = count(&report.files, |outcome| *outcome == Outcome::Unchanged);
    if unchanged > 0 {
        writeln!(out, "{} not changed by becalm", grouped(unchanged))?;
    }
    not_reached(out, look, &report.files)
}
