//! Outcomes of written files, for the commands that write.

use std::io::{self, Write};

use becalm_lib::words::counted;
use becalm_lib::writing::{Changed, Outcome};

use crate::terminal::note;
use crate::terminal::style::Look;

/// Counts the files with an outcome of a kind.
pub(crate) fn count(list: &[Changed], of: impl Fn(&Outcome) -> bool) -> u64 {
    list.iter().filter(|file| of(&file.outcome)).count() as u64
}

/// Prints refusals and the editor's warnings on stderr.
pub(crate) fn tell_trouble<'a>(files: impl Iterator<Item = &'a Changed>) {
    for file in files {
        if let Outcome::Refused { reason } = &file.outcome {
            note(file.path.as_ref(), reason);
        }
        for warning in &file.warnings {
            note(file.path.as_ref(), warning);
        }
    }
}

/// Writes how many files an interrupt left unchanged.
pub(crate) fn not_reached(out: &mut impl Write, look: Look, files: &[Changed]) -> io::Result<()> {
    match count(files, |outcome| *outcome == Outcome::NotReached) {
        0 => Ok(()),
        left => {
            let files = counted(left, "file is as it was", "files are as they were");
            writeln!(out, "{}", look.bad(&format!("interrupted: {files}")))
        }
    }
}
