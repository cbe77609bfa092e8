//! `becalm check --against`: compares the prediction with the record of a traced run.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use becalm_core::observe::attribute;
use becalm_core::probe::Probe;
use becalm_lib::assume::Assumptions;
use becalm_lib::beside::{Beside, Scope};
use becalm_lib::check::{Document, start};
use becalm_lib::escape::shown;
use becalm_lib::json::{as_json, read_file};
use becalm_lib::path::path_bytes;
use becalm_lib::targets::{Target, Targets};
use becalm_lib::trace::report::{Report, Seen};
use bstr::BString;

use crate::beside;
use crate::check::args::CheckArgs;
use crate::exit_code::ExitStatus;
use crate::terminal::Stdout;
use crate::terminal::style::{Look, When};

/// Predicts one program and compares.
///
/// # Errors
/// Returns an error if the paths name more or fewer than one program, or if the record cannot be
/// read or is of another program.
pub(crate) fn run(
    args: &CheckArgs,
    assumed: &Assumptions,
    targets: &Targets,
    record: &Path,
    color: When,
) -> Result<ExitStatus> {
    if let Some(problem) = targets.problems.first() {
        return Err(problem.clone().into());
    }
    let [target] = targets.files.as_slice() else {
        bail!("--against: one program is compared with one record");
    };
    let other = "not a program that a loader starts";
    let (mut program, closure) = start(assumed, &assumed.fs.session(), target, other)?;
    let read: Report = read_file(record, "becalm trace --json")?;
    let image = image_of(&read, target)
        .with_context(|| format!("{}: no such program in this record", record.display()))?;
    let observed = attribute(image.probes.iter().map(Probe::attempt).collect(), Some(&closure));
    let scope = Scope { reached_entry: image.reached_entry, opens_alone: read.opens_alone };
    let beside = Beside::of(&observed, &closure, scope);
    let mut out = Stdout::new();
    if args.json {
        Document::begin(&mut out)?;
        program.against = Some(beside.clone());
        out.write_all(&as_json(&program))?;
        Document::end(&mut out, &[*program], &[])?;
    } else {
        let look = Look::of_stdout(color);
        let path = look.strong(&shown(target.shown.as_ref()));
        writeln!(out, "{path}")?;
        out.write_all(beside::table(look, &beside, usize::MAX).as_bytes())?;
    }
    out.flush()?;
    Ok(if beside.equal { ExitStatus::Fine } else { ExitStatus::Finding })
}

/// Returns the last image that is the program.
fn image_of<'a>(record: &'a Report, target: &Target) -> Option<&'a Seen> {
    let real = target.host.canonicalize().ok();
    let real = real.as_deref().map(path_bytes);
    let is_same = |image: &&Seen| {
        let is_real = |real: &BString| image.path == *real || image.file == *real;
        !image.forked && (image.path == target.shown || real.as_ref().is_some_and(is_real))
    };
    record.images.iter().rev().find(is_same)
}
