//! Text of `becalm loader check`.

use std::io::{self, Write};

use becalm_lib::loader::check::Report;

/// Writes two lines.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "notes   {}", if report.notes { "read" } else { "not read" })?;
    let caches = match report.caches {
        Some(true) => "read",
        Some(false) => "not read in --store",
        None => "not tried: --store DIR names one of the loader's store prefixes",
    };
    writeln!(out, "caches  {caches}")
}
