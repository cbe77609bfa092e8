//! `becalm check`: what starting each program would try and load.
//!
//! [`becalm_lib::launch`] finds the files and [`becalm_lib::check::starts`] follows them; this module
//! writes them to the [`crate::terminal`] in the requested form.

use std::io::Write;

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_lib::assume::Assumptions;
use becalm_lib::check::Program;
use becalm_lib::check::starts::{Checked, Options, Starts};
use becalm_lib::launch;
use becalm_lib::loaded_index;
use becalm_lib::targets::{Problem, Targets};

use crate::check::args::CheckArgs;
use crate::check::files::args::Format;
use crate::check::files::text::Files;
use crate::check::json::Json;
use crate::check::probes::Probes;
use crate::check::symbols::text::Symbols;
use crate::check::table::Table;
use crate::check::text::Screen;
use crate::check::tree::Trees;
use crate::check::view::View;
use crate::check::{against, ndjson};
use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal::progress::Bar;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};

/// Checks the files that the flags name.
///
/// # Errors
/// Returns an error if nothing can be checked at all (an unusable sysroot), or if the output cannot
/// be written. Problems of single files are printed on stderr and set the exit status.
pub(crate) fn run(args: &CheckArgs, color: When) -> Result<ExitStatus> {
    let mut options = args.assume.clone();
    if let Some(index) = &args.index {
        options.audit = Some(loaded_index::audit_list(index)?);
    } else if args.budget.has_limits() {
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
        return against::run(args, &assumed, &targets, record, color);
    }
    let view = view_of(args, &targets);
    let look = Look::of_stdout(if args.json { When::Never } else { color });
    let advice = (targets.is_one_file && view.advises()).then_some(options);
    let symbols = args.symbols.options(args.assume.sysroot.is_none());
    let is_bundle = args.files.files && args.files.format == Format::CvmfsBundle;
    if is_bundle && !targets.is_one_file && targets.problems.is_empty() {
        bail!("--format cvmfs-bundle: a bundle is of one program");
    }
    let options = Options {
        budget: args.budget,
        newer_glibc: view.advises(),
        advice,
        symbols,
        files: args.files.files,
        index: args.index.is_some(),
        probes: args.json && args.probes,
        in_batches: view.is_long(),
    };
    let starts = Starts::new(&assumed, &options, launches);
    let mut run = Run {
        args,
        view: view.as_ref(),
        look,
        out: Stdout::new(),
        status: ExitStatus::Fine,
        programs: Vec::new(),
        errors: Vec::new(),
    };
    run.check(&starts, targets)?;
    run.out.flush()?;
    Ok(run.status)
}

/// Returns the form that the flags ask for.
fn view_of<'a>(args: &'a CheckArgs, targets: &Targets) -> Box<dyn View + 'a> {
    match (args.json, args.probes, args.tree) {
        (true, probes, _) => Box::new(Json { probes }),
        _ if args.files.files => Box::new(Files { args: &args.files, written: Default::default() }),
        (_, true, _) => Box::new(Probes),
        (_, _, true) => Box::new(Trees),
        _ if args.symbols.is_asked() => Box::new(Symbols),
        _ if targets.is_one_file => Box::new(Screen),
        _ => Box::new(Table),
    }
}

/// One run of the command: the results and the output so far.
struct Run<'a> {
    args: &'a CheckArgs,
    view: &'a dyn View,
    look: Look,
    out: Stdout,
    status: ExitStatus,
    programs: Vec<Program>,
    errors: Vec<Problem>,
}

impl Run<'_> {
    fn check(&mut self, starts: &Starts<'_>, targets: Targets) -> Result<()> {
        for folder in &targets.empty_folders {
            terminal::note(folder.as_ref(), "no ELF files in this folder");
            if self.args.budget.has_limits() {
                self.status = self.status.and(ExitStatus::Failure);
            }
        }
        for problem in targets.problems {
            self.report(problem);
        }
        for finding in starts.findings() {
            terminal::note(finding.script.as_ref(), &finding.words);
            if finding.is_costly {
                self.status = self.status.and(ExitStatus::Finding);
            }
        }
        let (view, look) = (self.view, self.look);
        view.begin(&mut self.out)?;
        let progress = Bar::of(targets.files.len());
        let show =
            |program: &mut Program, closure: Option<&Closure>| view.program(look, program, closure);
        starts.check(&targets.files, &|pieces| progress.add(pieces), show, |checked| {
            progress.pause();
            checked.into_iter().try_for_each(|checked| self.write(checked))
        })?;
        drop(progress);
        let programs = std::mem::take(&mut self.programs);
        view.end(&mut self.out, look, (programs, &self.errors))
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
        let between = if self.programs.is_empty() { "" } else { self.view.between() };
        self.out.write_all(between.as_bytes())?;
        self.out.write_all(&written)?;
        match self.view.files(&program.files.take().unwrap_or_default()) {
            Ok(text) => self.out.write_all(&text)?,
            Err(error) => self.report(Problem::new(program.path.clone(), error)),
        }
        self.programs.push(*program);
        Ok(())
    }

    fn report(&mut self, problem: Problem) {
        terminal::note(problem.path.as_ref(), &problem.reason);
        self.status = self.status.and(ExitStatus::Failure);
        self.errors.push(problem);
    }

    /// Updates the exit status for a program's search and prints notes on it.
    fn judge(&mut self, program: &Program) {
        let (path, budget) = (program.path.as_ref(), self.args.budget);
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
