//! `becalm check`: what starting each program would try and load.
//!
//! [`becalm_lib::launch`] finds the files, [`becalm_lib::assume`] holds what is the same for all of them,
//! [`program`] follows the start of one; here they are brought together with the
//! [`crate::terminal`] that was asked for.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use becalm_core::closure::Closure;
use becalm_host::Session;
use becalm_lib::advice::Advice;
use becalm_lib::assume;
use becalm_lib::assume::Assumptions;
use becalm_lib::check;
use becalm_lib::check::{Document, Program, Verdict};
use becalm_lib::files::{self, StartFile};
use becalm_lib::json::as_json;
use becalm_lib::launch::{self, Finding, Launch};
use becalm_lib::loaded_index;
use becalm_lib::symbols::{self, SymbolOptions};
use becalm_lib::targets::{Problem, Target, Targets};
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

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

/// Programs followed before what they gave is written, where each gives much.
const BATCH: usize = 64;
/// Programs followed with one look at the directories they share. A change on disk is
/// seen by those that come after; they take a few milliseconds.
const MOST_IN_A_SESSION: usize = 32;
/// Pieces of work a thread gets at the least, so that none waits long for another.
const PIECES_A_THREAD: usize = 4;

/// The form of the answer.
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

/// Checks what the flags ask for.
///
/// # Errors
/// Where nothing can be checked at all (an unusable sysroot), or the output cannot be
/// written. What is wrong with single files is told on stderr and in the status.
pub(crate) fn run(args: &CheckArgs, color: When) -> Result<ExitStatus> {
    let mut options = args.assume.options();
    if let Some(index) = &args.index {
        options.audit = Some(loaded_index::audit_list(index)?);
    }
    let mut assumed = Assumptions::new(&options)?;
    assumed.reads(args.reads.strategies().as_deref(), assume::tunables(&options));
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
    let advises = advises.then_some(options);
    let symbols = args.symbols.options(args.assume.sysroot.is_none());
    let max_misses = args.max_misses;
    let files = args.files.files.then_some(args.files.format);
    if files == Some(Format::CvmfsBundle) && !targets.is_one_file && targets.problems.is_empty() {
        bail!("--format cvmfs-bundle: a bundle is of one program");
    }
    let follower = Follower {
        view,
        look,
        assumed,
        max_misses,
        advises,
        symbols,
        lists_files: files.is_some(),
        shows_index: args.index.is_some(),
        repository: args.files.repository.clone(),
        launches: launches.into_iter().map(|it| (it.program().to_owned(), it)).collect(),
    };
    let mut run = Run::new(follower);
    run.check(targets)?;
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

    /// True where what is written of one program is so much that it must not be kept
    /// for all of them.
    fn is_long(self) -> bool {
        !matches!(self, Self::Screen | Self::Table | Self::Json { probes: false })
    }
}

/// Data that each thread needs to follow a start and print it.
struct Follower {
    view: View,
    look: Look,
    assumed: Assumptions,
    max_misses: Option<u64>,
    /// The flags that plans go by, where advice is given.
    advises: Option<assume::Options>,
    /// Options of the symbol report.
    symbols: Option<SymbolOptions>,
    /// True where the files of each start are listed.
    lists_files: bool,
    /// The mount point of the repository that a bundle is for.
    repository: Option<PathBuf>,
    /// The scripts that lead to programs, by the program's path.
    launches: FxHashMap<BString, Launch>,
    /// Whether the answers of the index are listed.
    shows_index: bool,
}

/// Result for one target: the verdict, and its output.
type LoaderAnswer = (Verdict, Vec<u8>);

impl Follower {
    /// Follows the starts of some files; one alone in this thread, so that no others
    /// are made for it.
    fn follow(&self, files: &[Target], progress: &Bar) -> Vec<LoaderAnswer> {
        let some = |targets: &[Target]| {
            let session = self.assumed.fs.session();
            let one = |target| {
                let told = self.follow_one(&session, target);
                progress.add(1);
                told
            };
            targets.iter().map(one).collect::<Vec<_>>()
        };
        match files {
            [_] => some(files),
            _ => {
                let share = files.len() / (PIECES_A_THREAD * rayon::current_num_threads());
                files.par_chunks(share.clamp(1, MOST_IN_A_SESSION)).flat_map_iter(some).collect()
            }
        }
    }

    fn follow_one(&self, session: &Session<'_>, target: &Target) -> LoaderAnswer {
        let (mut verdict, closure) = check::check(&self.assumed, session, target);
        let Verdict::Checked(program) = &mut verdict else { return (verdict, Vec::new()) };
        let launch = self.launches.get(&target.shown);
        program.scripts = launch.map_or_else(Vec::new, |it| it.scripts().cloned().collect());
        if let (true, Some(closure)) = (self.lists_files, &closure) {
            program.files = Some(files::of_start(&self.assumed, session, launch, closure));
        }
        program.over_budget = self.max_misses.map(|most| program.storm.misses() > most);
        let closure = closure.as_ref();
        if let Some(closure) = closure {
            if self.shows_index {
                program.indexed = loaded_index::indexed_start(&self.assumed, session, closure);
            }
            self.add_more(session, target, (program, closure));
            if let Some(problem) = self.add_symbols(program, closure) {
                return (Verdict::Problem(problem), Vec::new());
            }
        }
        let written = match self.view {
            View::Screen => text::screen(self.look, program, closure),
            // Each file is written once, whichever programs need it.
            View::Table | View::Files(_) => Vec::new(),
            View::Tree => tree::of(self.look, program, closure),
            View::Probes => probes::lines(self.look, closure),
            View::Symbols => symbols_view::text::screen(self.look, program),
            View::Json { probes } => {
                // A static program has no closure, and no probes.
                let all = || closure.map(|closure| closure.probes().collect()).unwrap_or_default();
                program.probes = probes.then(all);
                as_json(program)
            }
        };
        program.probes = None;
        (verdict, written)
    }
}

impl Follower {
    /// Adds the symbols, if they are asked for; returns why they cannot be looked up.
    fn add_symbols(&self, program: &mut Program, closure: &Closure) -> Option<Problem> {
        match symbols::report(self.symbols.as_ref()?, &self.assumed, closure) {
            Ok(report) => {
                program.symbols = report;
                None
            }
            Err(error) => Some(Problem { path: program.path.clone(), reason: error.to_string() }),
        }
    }

    /// Adds what costs further walks, where it is written: what a newer glibc would do, and of
    /// one program alone the advice.
    fn add_more(
        &self,
        session: &Session<'_>,
        target: &Target,
        (program, closure): (&mut Program, &Closure),
    ) {
        if matches!(self.view, View::Screen | View::Json { .. }) {
            program.newer_glibc = check::by_newer_glibc(&self.assumed, session, (program, closure));
        }
        if let Some(assume) = self.advises.as_ref().filter(|_| program.calmed_by.is_none()) {
            program.advice = Advice::of(assume, &self.assumed, target, closure);
        }
    }
}

/// One run of the command: what was found and written so far.
struct Run {
    follower: Follower,
    out: Stdout,
    status: ExitStatus,
    programs: Vec<Program>,
    errors: Vec<Problem>,
    /// The files that were listed.
    listed: Written,
}

impl Run {
    fn new(follower: Follower) -> Self {
        let (programs, errors, listed) = (Vec::new(), Vec::new(), Written::default());
        Self { follower, out: Stdout::new(), status: ExitStatus::Fine, programs, errors, listed }
    }

    fn check(&mut self, targets: Targets) -> Result<()> {
        for folder in &targets.empty_folders {
            terminal::note(folder.as_ref(), "no ELF files in this folder");
        }
        for problem in targets.problems {
            self.report(problem);
        }
        self.tell_of_scripts();
        let view = self.follower.view;
        if let View::Json { .. } = view {
            Document::begin(&mut self.out)?;
        }
        self.check_files(&targets.files)?;
        match view {
            View::Table => {
                table::write(&mut self.out, self.follower.look, std::mem::take(&mut self.programs))?
            }
            View::Json { .. } => Document::end(&mut self.out, &self.programs, &self.errors)?,
            View::Screen | View::Tree | View::Probes | View::Symbols | View::Files(_) => {}
        }
        Ok(())
    }

    fn check_files(&mut self, files: &[Target]) -> Result<()> {
        let progress = Bar::of(files.len());
        let batch = if self.follower.view.is_long() { BATCH } else { files.len().max(1) };
        for files in files.chunks(batch) {
            let all = self.follower.follow(files, &progress);
            progress.pause();
            for (verdict, written) in all {
                match verdict {
                    Verdict::Skipped => {}
                    Verdict::Problem(problem) => self.report(problem),
                    Verdict::Checked(mut program) => {
                        self.judge(&program);
                        self.write_one(&written)?;
                        let files = program.files.take().unwrap_or_default();
                        self.list(&program, &files)?;
                        self.programs.push(*program);
                    }
                }
            }
        }
        drop(progress);
        Ok(())
    }

    /// Writes what there is to write of one program, apart from the one before.
    fn write_one(&mut self, written: &[u8]) -> Result<()> {
        let between: &[u8] = match self.follower.view {
            _ if self.programs.is_empty() => b"",
            View::Json { .. } => b",\n",
            View::Tree | View::Screen | View::Symbols => b"\n",
            View::Table | View::Probes | View::Files(_) => b"",
        };
        self.out.write_all(between)?;
        self.out.write_all(written)?;
        Ok(())
    }

    /// Lists the files of a start, if that is asked for.
    fn list(&mut self, program: &Program, files: &[StartFile]) -> Result<()> {
        let View::Files(format) = self.follower.view else { return Ok(()) };
        let repository = self.follower.repository.as_deref();
        match files_view::list(files, format, repository, &mut self.listed) {
            Ok(text) => self.out.write_all(&text)?,
            Err(error) => {
                self.report(Problem { path: program.path.clone(), reason: error.to_string() });
            }
        }
        Ok(())
    }

    /// Prints the findings on scripts that lead to programs.
    fn tell_of_scripts(&mut self) {
        let mut findings: Vec<&Finding> =
            self.follower.launches.values().flat_map(|launch| &launch.findings).collect();
        findings.sort_by_key(|finding| finding.script());
        for finding in findings {
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
        let path = program.path.as_ref();
        if let (Some(true), Some(most)) = (program.over_budget, self.follower.max_misses) {
            let misses = program.storm.misses();
            terminal::note(path, &format!("{misses} misses, over the budget of {most}"));
            self.status = self.status.and(ExitStatus::Finding);
        }
        if program.incomplete {
            terminal::note(path, "more probes than becalm follows; the counts are a part");
            self.status = self.status.and(ExitStatus::Failure);
        }
        let symbols = self.follower.symbols.as_ref();
        let lacks_symbols = symbols.is_some_and(|options| options.is_finding(program));
        if !program.unresolved.is_empty() || program.stop.is_some() || lacks_symbols {
            self.status = self.status.and(ExitStatus::Finding);
        }
    }
}
