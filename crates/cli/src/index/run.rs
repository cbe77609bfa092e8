//! `becalm index`: makes an index by [`becalm_lib::index::make`] and prints its contents.

use anyhow::Result;
use becalm_lib::index::make::index;
use becalm_lib::problem::Problem;
use becalm_lib::progress::{Phase, Progress};
use becalm_lib::run::making::make_wanted;

use crate::exit_code::ExitStatus;
use crate::index::args::IndexArgs;
use crate::index::text;
use crate::jobs;
use crate::terminal;
use crate::terminal::progress::Bar;
use crate::terminal::style::{Look, When};

/// Indexes and writes, and makes the indexes of programs that `becalm run` has requested.
///
/// # Errors
/// Returns an error if a store does not exist, if nothing could be indexed, or if the index cannot
/// be written.
pub(crate) fn run(args: &IndexArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    if !args.path_dirs.is_empty() {
        let why = "not indexed: the kernel resolves paths in directories that change in place";
        terminal::note("--path-dirs".into(), why);
    }
    let report = index(&args.options()?, &Indexing)?;
    terminal::note_all(&report.problems);
    terminal::write_report(args.json, &report, |out| {
        text::text(out, Look::of_stdout(color), &report)
    })?;
    let failed = !report.problems.is_empty();
    Ok(if failed { ExitStatus::Failure } else { ExitStatus::Fine })
}

/// Counts the files that were read.
struct Indexing;

impl Progress for Indexing {
    fn search(&self) -> Box<Phase<'_>> {
        let bar = Bar::counting("files read");
        Box::new(move |files| bar.add(files))
    }

    fn begin_work(&self) {
        make_wanted();
    }

    fn remark(&self, problem: &Problem) {
        terminal::note(problem.path.as_ref(), &problem.reason);
    }
}
