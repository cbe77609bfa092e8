//! `becalm report`: one page that shows a program's storm, and what is left of it.
//!
//! [`side`] is what is told of one program (or of a record of its start), [`observe`] runs
//! it once for the timeline, [`record`] reads what such a run left; [`crate::output::html`]
//! makes the page.

mod observe;
mod record;
mod side;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use bstr::ByteSlice;

#[cfg(test)]
pub(crate) use self::side::Child;
pub(crate) use self::side::{Asked, Node, Observed, Side, Try};
use crate::commands::assume::{self, Assumptions};
use crate::exit_code::ExitStatus;
use crate::flags::{ReadsFlag, ReportFlags};
use crate::output::comparison::{Comparison, SCHEMA};
use crate::output::{html, path_bytes};
use crate::sanitize::shown;

/// More than any table of ours has.
const MAX_COMPARISON: u64 = 64 << 20;

/// All that the page shows.
#[derive(Debug)]
pub(crate) struct Report {
    /// The program as it is.
    pub before: Side,
    /// The calmed one.
    pub after: Option<Side>,
    /// The carriers side by side.
    pub comparison: Option<Comparison>,
}

/// Makes the page.
///
/// # Errors
/// The program or what is shown beside it cannot be read, or the page cannot be written.
pub(crate) fn run(asked: &ReportFlags) -> Result<ExitStatus> {
    let mut assumed = Assumptions::new(&asked.assume)?;
    assumed.reads(&ReadsFlag::default(), assume::tunables(&asked.assume));
    let before = side::of(&asked.program, asked, &assumed)?;
    let after = asked.after.as_deref().map(|path| side::of(path, asked, &assumed)).transpose()?;
    let comparison = asked.compare.as_deref().map(comparison).transpose()?;
    let page = html::page(&Report { before, after, comparison })?;
    fs::write(&asked.output, page).with_context(|| name(&asked.output))?;
    Ok(ExitStatus::Fine)
}

/// Reads a `becalm/compare/1` object.
fn comparison(path: &Path) -> Result<Comparison> {
    let length = fs::metadata(path).with_context(|| name(path))?.len();
    if length > MAX_COMPARISON {
        bail!("{}: too large for a comparison", name(path));
    }
    let text = fs::read(path).with_context(|| name(path))?;
    let comparison: Comparison = serde_json::from_slice(&text)
        .with_context(|| format!("{}: not what becalm compare --json writes", name(path)))?;
    if comparison.schema != SCHEMA {
        bail!("{}: not of schema {SCHEMA}", name(path));
    }
    Ok(comparison)
}

/// A path as it is told to the user.
fn name(path: &Path) -> String {
    shown(path_bytes(path).as_bstr())
}
