//! `becalm check`: what starting each program would try and load.
//!
//! [`becalm_lib::launch`] finds the files and [`becalm_lib::check::starts`] follows them; this module
//! writes them to the [`crate::terminal`] in the requested form.

use std::io::Write;

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_lib::assume::Assumptions;
use becalm_lib::check::starts::{Checked, Options, Starts};
use becalm_lib::check::{Document, Program};
use becalm_lib::files::StartFile;
use becalm_lib::json::as_json;
use becalm_lib::launch;
use becalm_lib::loaded_index;
use becalm_lib::targets::{Problem, Targets};

use crate::check::args::CheckArgs;
use crate::check::files::args::Format;
use crate::check::files::text as files_view;
use crate::check::files::text::Written;
use crate::check::{against, ndjson, symbols as symbols_view, table, text, tree};
use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal::progress::Bar;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout, probes};

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// One screen about one program.
    Screen,
    /// One row a program.
    Table,
    Tree,
    Probes,
    /// The symbols of each program.
    Symbols,
    /// The files that the starts need.
    Files(Format),
    Json {
        probes: bool,
    },
}

/// Checks the files that the flags name.
///
/// # Errors
/// Returns an error if nothing can be checked at all (an unusable sysroot), or if the output cannot
/// be written. Problems of single files are printed on stderr and set the exit status.
pub(crate) fn run(args: &CheckArgs, color: When) -> Result<ExitStatus> {
    let mut options = args.assume.options();
    if let Some(index) = &args.index {
        options.audit = Some(loaded_index::audit_list(index)?);
    } else if args.budget.budget().has_limits() {
        // A budget is of a plain start, also in a session that has an index.
        options.audit.get_or_insert_default();
    }
    let mut assumed = Assumptions::new(&options)?;
    assumed.reads(args.reads.strategies().as_deref());
    jobs::limit(args.jobs)?;
    if args.ndjson {
        return ndjson::run(args, assumed);
    }
    let (targets, launches) = launch::find(&assumed, &args.paths);
    if let Some(record) = &args.against {
        return against::run(args, &assumed, targets, record, color);
    }
    let view = View::of(args, &targets);
    let look = Look::of_stdout(if args.json { When::Never } else { color });
    let advises = targets.is_one_file && matches!(view, View::Screen | View::Json { .. });
    let advice = advises.then_some(options);
    let symbols = args.symbols.options(args.assume.sysroot.is_none());
    let files = args.files.files.then_some(args.files.format);
    if files == Some(Format::CvmfsBundle) && !targets.is_one_file && targets.problems.is_empty() {
        bail!("--format cvmfs-bundle: a bundle is of one program");
    }
    let options = Options {
        budget: args.budget.budget(),
        newer_glibc: matches!(view, View::Screen | View::Json { .. }),
        advice,
        symbols,
        files: files.is_some(),
        index: args.index.is_some(),
        probes: view == View::Json { probes: true },
        in_batches: view.is_long(),
    };
    let starts = Starts::new(&assumed, &options, launches);
    let mut run = Run {
        args,
        view,
        look,
        out: Stdout::new(),
        status: ExitStatus::Fine,
        programs: Vec::new(),
        errors: Vec::new(),
        listed: Written::default(),
    };
    run.check(&starts, targets)?;
    run.out.flush()?;
    Ok(run.status)
}

impl View {
    fn of(args: &CheckArgs, targets: &Targets) -> Self {
        match (args.json, args.probes, args.tree) {
            (true, probes, _) => Self::Json { probes },
            _ if args.files.files => Self::Files(args.files.format),
            (_, true, _) => Self::Probes,
            (_, _, true) => Self::Tree,
            _ if args.symbols.is_asked() => Self::Symbols,
            _ if targets.is_one_file => Self::Screen,
            _ => Self::Table,
        }
    }

    /// True if the output of one program is too long to be kept for all programs.
    fn is_long(self) -> bool {
        !matches!(self, Self::Screen | Self::Table | Self::Json { probes: false })
    }
}

/// Writes one program in a form. [`View::Table`] and [`View::Files`] are written later: they join
/// what is known of several programs.
fn shown(view: View, look: Look, program: &mut Program, closure: Option<&Closure>) -> Vec<u8> {
    match view {
        View::Screen => text::screen(look, program, closure),
        View::Table | View::Files(_) => Vec::new(),
        View::Tree => tree::of(look, program, closure),
        View::Probes => probes::lines(look, closure),
        View::Symbols => symbols_view::text::screen(look, program),
        View::Json { .. } => {
            let written = as_json(program);
            program.probes = None;
            written
        }
    }
}

/// One run of the command: the results and the output so far.
struct Run<'a> {
    args: &'a CheckArgs,
    view: View,
    look: Look,
    out: Stdout,
    status: ExitStatus,
    programs: Vec<Program>,
    errors: Vec<Problem>,
    /// The files that were listed.
    listed: Written,
}

impl Run<'_> {
    fn check(&mut self, starts: &Starts<'_>, targets: Targets) -> Result<()> {
        for folder in &targets.empty_folders {
            terminal::note(folder.as_ref(), "no ELF files in this folder");
            if self.args.budget.budget().has_limits() {
                self.status = self.status.and(ExitStatus::Failure);
            }
        }
        for problem in targets.problems {
            self.report(problem);
        }
        self.tell_of_scripts(starts);
        let (view, look) = (self.view, self.look);
        if let View::Json { .. } = view {
            Document::begin(&mut self.out)?;
        }
        let progress = Bar::of(targets.files.len());
        let show =
            |program: &mut Program, closure: Option<&Closure>| shown(view, look, program, closure);
        starts.check(&targets.files, &progress, show, |checked| {
            progress.pause();
            checked.into_iter().try_for_each(|checked| self.write(checked))
        })?;
        drop(progress);
        match view {
            View::Table => table::write(&mut self.out, look, std::mem::take(&mut self.programs))?,
            View::Json { .. } => Document::end(&mut self.out, &self.programs, &self.errors)?,
            View::Screen | View::Tree | View::Probes | View::Symbols | View::Files(_) => {}
        }
        Ok(())
    }

    fn write(&mut self, checked: Checked<Vec<u8>>) -> Result<()> {
        let (mut program, written) = match checked {
            Ok(checked) => checked,
            Err(problem) => {
                self.report(problem);
                return Ok(());
            }
        };
        self.judge(&program);
        self.write_one(&written)?;
        let files = program.files.take().unwrap_or_default();
        self.list(&program, &files)?;
        self.programs.push(*program);
        Ok(())
    }

    /// Writes the output of one program, separated from the one before.
    fn write_one(&mut self, written: &[u8]) -> Result<()> {
        let between: &[u8] = match self.view {
            _ if self.programs.is_empty() => b"",
            View::Json { .. } => b",\n",
            View::Tree | View::Screen | View::Symbols => b"\n",
            View::Table | View::Probes | View::Files(_) => b"",
        };
        self.out.write_all(between)?;
        self.out.write_all(written)?;
        Ok(())
    }

    /// Lists the files of a start, if requested.
    fn list(&mut self, program: &Program, files: &[StartFile]) -> Result<()> {
        let View::Files(format) = self.view else { return Ok(()) };
        let repository = self.args.files.repository.as_deref();
        match files_view::list(files, format, repository, &mut self.listed) {
            Ok(text) => self.out.write_all(&text)?,
            Err(error) => {
                self.report(Problem { path: program.path.clone(), reason: error.to_string() });
            }
        }
        Ok(())
    }

    /// Prints the findings on scripts that lead to programs.
    fn tell_of_scripts(&mut self, starts: &Starts<'_>) {
        for finding in starts.findings() {
            terminal::note(finding.script().as_ref(), &finding.words());
            if finding.is_costly() {
                self.status = self.status.and(ExitStatus::Finding);
            }
        }
    }

    fn report(&mut self, problem: Problem) {
        terminal::note(problem.path.as_ref(), &problem.reason);
        self.status = self.status.and(ExitStatus::Failure);
        self.errors.push(problem);
    }

    /// Updates the exit status for a program's search and prints notes on it.
    fn judge(&mut self, program: &Program) {
        let (path, budget) = (program.path.as_ref(), self.args.budget.budget());
        budget.over(program).iter().for_each(|over| terminal::note(path, over));
        if let Some(why) = budget.not_judged(program) {
            terminal::note(path, why);
            self.status = self.status.and(ExitStatus::Failure);
        }
        if program.incomplete {
            terminal::note(path, "more probes than becalm follows; the counts are a part");
            self.status = self.status.and(ExitStatus::Failure);
        }
        if program.is_finding(self.args.symbols.strict) {
            self.status = self.status.and(ExitStatus::Finding);
        }
    }
}
