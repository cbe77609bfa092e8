//! The comparison for readers: text for a terminal, Markdown for a page, JSON for programs.

use std::io::Write;

use anyhow::Result;
use becalm_lib::compare::comparison::Comparison;
use becalm_lib::json::document;

use crate::compare::args::CompareArgs;
use crate::compare::{markdown, text};
use crate::terminal::style::Look;

/// Writes the table in the requested form.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn write(
    out: &mut dyn Write,
    args: &CompareArgs,
    look: Look,
    comparison: &Comparison,
) -> Result<()> {
    if args.json {
        out.write_all(&document(comparison))?;
    } else if args.markdown {
        out.write_all(markdown::table(comparison).as_bytes())?;
    } else {
        out.write_all(text::table(look, comparison).as_bytes())?;
    }
    Ok(())
}
