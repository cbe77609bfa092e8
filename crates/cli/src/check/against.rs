//! `becalm check --against`: the prediction beside what a traced run recorded.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use becalm_core::fs::Errno;
use becalm_core::observe::{Kind, Lookup, attribute};
use becalm_core::probe::{Call, Outcome, Probe};
use becalm_lib::assume::Assumptions;
use becalm_lib::beside::{Beside, Scope};
use becalm_lib::check;
use becalm_lib::check::Verdict;
use becalm_lib::escape::shown;
use becalm_lib::targets::{Target, Targets};
use bstr::ByteSlice;
use serde::Deserialize;

use crate::beside;
use crate::check::args::CheckArgs;
use crate::check::json;
use crate::exit_code::ExitStatus;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};

const SCHEMA: &str = "becalm/trace/1";

/// Fields read from a record: `becalm/trace/1`.
#[derive(Debug, Deserialize)]
struct Record {
    schema: String,
    images: Vec<Recorded>,
    #[serde(default)]
    opens_alone: bool,
}

#[derive(Debug, Deserialize)]
struct Recorded {
    path: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    reached_entry: Option<bool>,
    #[serde(default)]
    forked: bool,
    probes: Vec<Probe>,
}

/// Predicts one program and compares.
///
/// # Errors
/// Where there is not one program to check, or the record cannot be read or is of
/// another program.
pub(crate) fn run(
    args: &CheckArgs,
    assumed: &Assumptions,
    targets: Targets,
    record: &Path,
    color: When,
) -> Result<ExitStatus> {
    if let Some(problem) = targets.problems.into_iter().next() {
        terminal::note(problem.path.as_ref(), &problem.reason);
        return Ok(ExitStatus::Failure);
    }
    let [target] = targets.files.as_slice() else {
        bail!("--against: one program is compared with one record");
    };
    let (verdict, closure) = check::check(assumed, &assumed.fs.session(), target);
    let (program, closure) = match (verdict, closure) {
        (Verdict::Checked(program), Some(closure)) => (program, closure),
        (Verdict::Problem(problem), _) => {
            terminal::note(problem.path.as_ref(), &problem.reason);
            return Ok(ExitStatus::Failure);
        }
        _ => bail!("{}: nothing that a loader starts", shown(target.shown.as_ref())),
    };
    let read = read(record).with_context(|| record.display().to_string())?;
    let image = image_of(&read, target)
        .with_context(|| format!("{}: no such program in this record", record.display()))?;
    let lookups: Vec<Lookup> = image.probes.iter().map(lookup).collect();
    let scope =
        Scope { reached_entry: image.reached_entry.unwrap_or(true), opens_alone: read.opens_alone };
    let beside = Beside::of(&attribute(&lookups, &closure), &closure, scope);
    let mut out = Stdout::new();
    if args.json {
        json::begin(&mut out)?;
        out.write_all(&json::program_beside(&program, Some(&closure), false, Some(&beside)))?;
        json::end(&mut out, &[*program], &[])?;
    } else {
        let look = Look::of_stdout(color);
        let path = look.strong(&shown(target.shown.as_ref()));
        writeln!(out, "{path}")?;
        out.write_all(beside::table(look, &beside, usize::MAX).as_bytes())?;
    }
    out.flush()?;
    Ok(if beside.equal { ExitStatus::Fine } else { ExitStatus::Finding })
}

fn read(record: &Path) -> Result<Record> {
    let file = File::open(record)?;
    let read: Record = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| anyhow::anyhow!("not what becalm trace --json writes: {error}"))?;
    if read.schema != SCHEMA {
        bail!("schema {:?}, not {SCHEMA}", read.schema);
    }
    Ok(read)
}

/// The last image that is the program.
fn image_of<'a>(record: &'a Record, target: &Target) -> Option<&'a Recorded> {
    let path = target.shown.to_str_lossy();
    let real = target.host.canonicalize().ok();
    let real = real.as_ref().map(|real| real.to_string_lossy());
    let is_same = |image: &&Recorded| {
        !image.forked
            && (image.path == path
                || real.as_ref().is_some_and(|real| {
                    image.path == *real || image.file.as_deref() == Some(real.as_ref())
                }))
    };
    record.images.iter().rev().find(is_same)
}

/// A recorded probe as the call it was.
fn lookup(probe: &Probe) -> Lookup {
    Lookup {
        kind: match probe.call {
            Call::Open => Kind::Open,
            Call::Stat => Kind::Stat,
        },
        path: probe.path.clone(),
        at_cwd: true,
        errno: match probe.outcome {
            Outcome::Miss => Some(Errno::NOENT),
            Outcome::NotADirectory => Some(Errno::NOTDIR),
            Outcome::Denied => Some(Errno::ACCES),
            Outcome::Loop => Some(Errno::LOOP),
            Outcome::NameTooLong => Some(Errno::NAMETOOLONG),
            Outcome::Failed => Some(Errno::IO),
            _ => None,
        },
        ns: 0,
        by_loader: true,
    }
}
