//! `becalm report`: one page that shows a program's storm, and what is left of it.
//!
//! [`snapshot`] is what is told of one program (or of a record of its start), [`observe`] runs
//! it once for the timeline, [`record`] reads what such a run left; [`crate::report::html`]
//! makes the page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use becalm_lib::assume;
use becalm_lib::assume::Assumptions;
use becalm_lib::compare::comparison::Comparison;
use becalm_lib::json::{self, ReadError};

use crate::exit_code::ExitStatus;
use crate::report::args::ReportArgs;
use crate::report::name::name;
use crate::report::report::Report;
use crate::report::{html, snapshot, survey};

/// More than any table of ours has.
const MAX_COMPARISON: u64 = 64 << 20;

/// Makes the page.
///
/// # Errors
/// The program or what is shown beside it cannot be read, or the page cannot be written.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitStatus> {
    if let Some(lines) = &args.survey {
        fs::write(&args.output, survey::page(lines)?).with_context(|| name(&args.output))?;
        return Ok(ExitStatus::Fine);
    }
    let Some(program) = &args.program else { bail!("report: no program") };
    let options = args.assume.options();
    let mut assumed = Assumptions::new(&options)?;
    assumed.reads(&[], assume::tunables(&options));
    let before = snapshot::of(program, args, &assumed)?;
    let after = args.after.as_deref().map(|path| snapshot::of(path, args, &assumed)).transpose()?;
    let comparison = args.compare.as_deref().map(comparison).transpose()?;
    let page = html::page(&Report { before, after, comparison })?;
    fs::write(&args.output, page).with_context(|| name(&args.output))?;
    Ok(ExitStatus::Fine)
}

/// Reads a `becalm/compare/1` object.
fn comparison(path: &Path) -> Result<Comparison> {
    let length = fs::metadata(path).with_context(|| name(path))?.len();
    if length > MAX_COMPARISON {
        bail!("{}: too large for a comparison", name(path));
    }
    let text = fs::read(path).with_context(|| name(path))?;
    json::read(&text).map_err(|error| match error {
        ReadError::Schema(_) => anyhow!("{}: {error}", name(path)),
        ReadError::Json(_) => {
            anyhow!(error).context(format!("{}: not what becalm compare --json writes", name(path)))
        }
    })
}
