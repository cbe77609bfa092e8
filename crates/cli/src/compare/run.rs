//! `becalm compare`: compares strategies by [`becalm_lib::compare`] and prints the table.

use std::io::Write;

use anyhow::{Result, anyhow};
use becalm_host::mount_namespace;
use becalm_lib::compare::compare;
use becalm_lib::compare::error::CompareError;
use becalm_lib::compare::program::Program;
use becalm_lib::words::words_of_chain;

use crate::bench;
use crate::compare::args::CompareArgs;
use crate::compare::output;
use crate::exit_code::ExitStatus;
use crate::scratch::Scratch;
use crate::terminal::Stdout;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};

/// Compares and prints.
///
/// # Errors
/// Returns an error if the program cannot be compared, or if disk space or a permission is missing.
pub(crate) fn run(args: &CompareArgs, color: When) -> Result<ExitStatus> {
    let options = args.options()?;
    // Mount namespaces must be prepared before there is a second thread.
    let namespaces = mount_namespace::prepare();
    let found = Program::look(&args.program, &args.store.prefixes())?;
    namespaces.map_err(|error| anyhow!(words_of_chain(&error)))?;
    let scratch = Scratch::new()?;
    let compared = compare(found, &options, scratch.path(), &Bars).map_err(|error| match error {
        CompareError::Control { program, source } => anyhow!(
            "{}: {} (other arguments: --run; compare it all the same: --ignore-failure)",
            program.display(),
            words_of_chain(&source)
        ),
        CompareError::Bench(error) => bench::run::in_words(&error),
        error => error.into(),
    });
    let comparison = scratch.done(compared)?;
    let mut out = Stdout::new();
    output::write(&mut out, args, Look::of_stdout(color), &comparison)?;
    out.flush()?;
    Ok(if comparison.has_finding() { ExitStatus::Finding } else { ExitStatus::Fine })
}
