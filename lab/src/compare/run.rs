//! Compares strategies, and prints the table as text, Markdown or JSON.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use crate::mount_namespace;
use anyhow::Result;
use becalm_lib::json::document;
use becalm_lib::scratch::Scratch;

use crate::compare::args::CompareArgs;
use crate::compare::placed::Program;
use crate::compare::{compare, markdown, text};

/// Compares and prints. The exit code is 1 if a strategy makes the program load something else.
///
/// # Errors
/// Returns an error if the program cannot be compared, or if disk space or a permission is missing.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode> {
    let (program_args, limit) = (args.program_args()?, args.limit()?);
    // Mount namespaces must be prepared before there is a second thread.
    let namespaces = mount_namespace::prepare();
    let found = Program::look(&args.program, &args.prefixes())?;
    namespaces?;
    let scratch = Scratch::new()?;
    let compared = compare(found, args, (program_args, limit), scratch.path());
    let comparison = scratch.done(compared)?;
    let written = if args.json {
        document(&comparison)
    } else if args.markdown {
        markdown::table(&comparison).into_bytes()
    } else {
        text::table(&comparison).into_bytes()
    };
    stdout().write_all(&written)?;
    Ok(ExitCode::from(u8::from(comparison.has_finding())))
}
