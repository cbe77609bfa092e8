//! What became of files that were to be written, in the outputs of the commands that write.

use std::io::{self, Write};

use becalm_lib::json::lossy;
use becalm_lib::words::counted;
use bstr::BString;
use serde::Serialize;

use crate::terminal::note;
use crate::terminal::style::Look;
use crate::writing::{Done, Outcome};

/// One file or directory in the JSON.
#[derive(Serialize)]
pub(crate) struct DoneJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    warnings: &'a [String],
}

impl<'a> DoneJson<'a> {
    pub(crate) fn of((path, done): &'a (BString, Done)) -> Self {
        let (status, lengths, reason) = match &done.outcome {
            Outcome::Written { old_length, new_length } => {
                ("written", Some((*old_length, *new_length)), None)
            }
            Outcome::Unchanged => ("unchanged", None, None),
            Outcome::Refused(why) => ("refused", None, Some(why.as_str())),
            Outcome::NotReached => ("not-reached", None, None),
        };
        Self {
            path,
            status,
            old_length: lengths.map(|(old, _)| old),
            new_length: lengths.map(|(_, new)| new),
            reason,
            warnings: &done.warnings,
        }
    }
}

/// How many have an outcome of a kind.
pub(crate) fn count(list: &[(BString, Done)], of: impl Fn(&Outcome) -> bool) -> u64 {
    list.iter().filter(|(_, done)| of(&done.outcome)).count() as u64
}

/// What a file's outcome or the editor has to complain of, on stderr.
pub(crate) fn tell_trouble(path: &BString, done: &Done) {
    if let Outcome::Refused(why) = &done.outcome {
        note(path.as_ref(), why);
    }
    for warning in &done.warnings {
        note(path.as_ref(), warning);
    }
}

/// How many files an interrupt left as they were.
pub(crate) fn not_reached(
    out: &mut impl Write,
    look: Look,
    files: &[(BString, Done)],
) -> io::Result<()> {
    match count(files, |outcome| *outcome == Outcome::NotReached) {
        0 => Ok(()),
        left => {
            let files = counted(left, "file is as it was", "files are as they were");
            writeln!(out, "{}", look.bad(&format!("interrupted: {files}")))
        }
    }
}
