//! `becalm check --ndjson`: a survey of very many files, one JSON object a line.
//!
//! Each thread writes the lines of the files that it has checked. Nothing is kept, and the lines
//! are in no order.

use std::io::{self, BufWriter, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use becalm_lib::assume::Assumptions;
use becalm_lib::check::budget::Budget;
use becalm_lib::json::document;
use becalm_lib::survey::{self, Options, Surveyed, Unchecked};
use becalm_lib::targets::Problem;

use crate::check::args::CheckArgs;
use crate::exit_code::ExitStatus;
use crate::terminal;
use crate::terminal::progress::Bar;

/// State shared by the threads.
struct Output {
    out: BufWriter<io::Stdout>,
    status: ExitStatus,
    /// The error that ended the output.
    failed: Option<io::Error>,
}

/// Checks the files that the flags name.
///
/// # Errors
/// Returns an error if the output cannot be written. A file that cannot be checked is a line, and
/// sets the exit status.
pub(crate) fn run(args: &CheckArgs, mut assumed: Assumptions) -> Result<ExitStatus> {
    let out = BufWriter::with_capacity(64 * 1024, io::stdout());
    let output = Mutex::new(Output { out, status: ExitStatus::Fine, failed: None });
    let budget = args.budget;
    let count = Bar::counting("files looked at");
    let each = |results: Vec<Result<Surveyed, Problem>>| {
        let (mut lines, mut status) = (Vec::new(), ExitStatus::Fine);
        for result in results {
            let (line, own) = written(result, &budget);
            lines.extend(line);
            status = status.and(own);
        }
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.status = output.status.and(status);
        if output.failed.is_none() {
            output.failed = output.out.write_all(&lines).err();
        }
        output.failed.is_none()
    };
    let shard = args.shard.unwrap_or_default();
    let options = Options { shard, budget, times: args.times };
    survey::survey(&mut assumed, &args.paths, options, &|files| count.add(files), &each);
    drop(count);
    let mut output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    match output.failed {
        Some(error) => Err(error.into()),
        None => {
            output.out.flush()?;
            Ok(output.status)
        }
    }
}

/// Returns the line of one file, and its exit status.
fn written(result: Result<Surveyed, Problem>, budget: &Budget) -> (Vec<u8>, ExitStatus) {
    let surveyed = match result {
        Ok(surveyed) => surveyed,
        Err(Problem { path, reason }) => {
            terminal::note(path.as_ref(), &reason);
            return (document(&Unchecked { path: &path, error: &reason }), ExitStatus::Failure);
        }
    };
    let program = &surveyed.program;
    let not_judged = budget.not_judged(program);
    if let Some(why) = not_judged {
        terminal::note(program.path.as_ref(), why);
    }
    let status = match program.is_finding(false) {
        _ if program.incomplete || not_judged.is_some() => ExitStatus::Failure,
        true => ExitStatus::Finding,
        false => ExitStatus::Fine,
    };
    (document(&surveyed), status)
}
