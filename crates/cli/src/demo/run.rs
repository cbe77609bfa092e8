//! `becalm demo`: makes a store with a large search out of a program of this machine, removes the
//! search with an index, and shows the rest. The store is deleted at the end, unless it is kept.
//!
//! [`becalm_lib::compare::import`] makes the store; the library functions behind the commands, and
//! `LD_DEBUG`, give the figures.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use becalm_host::oracle;
use becalm_host::trace::{self, Streams, TraceError};
use becalm_host::write::{WriteOptions, Writer};
use becalm_lib::assume::Assumptions;
use becalm_lib::check::starts::add_advice;
use becalm_lib::check::{by_newer_glibc, check, start};
use becalm_lib::compare::apply::{Variables, environment, index_variables, plain_assumptions};
use becalm_lib::compare::import::import;
use becalm_lib::compare::program::Program;
use becalm_lib::index::make;
use becalm_lib::path::path_bytes;
use becalm_lib::progress::Silent;
use becalm_lib::scratch::Scratch;
use becalm_lib::targets::{self, Target};
use becalm_lib::trace::observe::watch;
use becalm_lib::trace::options::Options;
use becalm_lib::trace::report::Seen;
use becalm_lib::words::{counted, grouped, milliseconds};
use bstr::ByteSlice;
use rayon::prelude::*;

use crate::bench::variants::arguments;
use crate::check::text as check_text;
use crate::demo::args::DemoArgs;
use crate::exit_code::ExitStatus;
use crate::index::text as index_text;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};

/// Runs the demonstration.
///
/// # Errors
/// Returns an error if there is no suitable program, or if a file cannot be written or a program
/// cannot be run.
pub(crate) fn run(args: &DemoArgs, color: When) -> Result<ExitStatus> {
    let look = Look::of_stdout(color);
    if let Some(kept) = &args.keep {
        let writer = Writer::new(WriteOptions::default());
        if !writer.make_dir(kept)? {
            bail!("{}: there is such a directory", kept.display());
        }
        writer.settle_dir(kept)?;
        Demo { args, look, dir: kept.canonicalize()? }.show()?;
        return Ok(ExitStatus::Fine);
    }
    let scratch = Scratch::new()?;
    let outcome = Demo { args, look, dir: scratch.path().to_owned() }.show();
    scratch.done(outcome)?;
    Ok(ExitStatus::Fine)
}

struct Demo<'a> {
    args: &'a DemoArgs,
    look: Look,
    dir: PathBuf,
}

impl Demo<'_> {
    fn show(&self) -> Result<()> {
        let path = match &self.args.program {
            Some(path) => path.clone(),
            None => largest(Path::new("/usr/bin"))?,
        };
        let program = Program::look(&path)?;
        self.say(&format!("1. {} as this machine has it", program.path.display()))?;
        self.check(&program.path)?;

        self.say("2. The same program in a store of one package a directory")?;
        let store = self.dir.join("store");
        let stored = import(&program.closure, &program.interpreter, &store)?;
        self.check(&stored)?;

        self.say("3. The storm as it happens")?;
        let before = self.observed(&stored, &Variables::new())?;

        self.say("4. Calmed by an index: one file beside the store, nothing in it changed")?;
        let variables = self.index(store)?;
        let after = self.observed(&stored, &variables)?;
        self.tell(&before, &after, &program.path)
    }

    fn say(&self, what: &str) -> Result<()> {
        Ok(terminal::line(format_args!("\n{}", self.look.strong(what)))?)
    }

    /// Prints the screen of `becalm check`.
    fn check(&self, program: &Path) -> Result<()> {
        let options = plain_assumptions();
        let assumed = Assumptions::new(&options)?;
        let (session, target) = (assumed.fs.session(), Target::named(&assumed, program));
        let (mut program, closure) = start(&assumed, &session, &target, "cannot be checked")?;
        program.newer_glibc = by_newer_glibc(&assumed, &session, (&program, &closure));
        add_advice(&options, &assumed, &session, &target, (&mut program, &closure));
        let screen = check_text::screen(self.look, &program, Some(&closure));
        Ok(Stdout::new().write_all(&screen)?)
    }

    /// Makes an index of the store, and returns the variables of a start with it.
    fn index(&self, store: PathBuf) -> Result<Variables> {
        let index = self.dir.join("index.so");
        let options = make::Options {
            stores: vec![store],
            output: Some(index.clone()),
            ..make::Options::default()
        };
        let report = make::index(&options, &Silent)?;
        terminal::note_all(&report.problems);
        index_text::text(&mut Stdout::new(), self.look, &report)?;
        index_variables(&index, None)
    }

    /// Observes one start by tracing it, and another by the loader's own `LD_DEBUG` output.
    fn observed(&self, program: &Path, variables: &Variables) -> Result<Seen> {
        let seen = self.traced(program, variables)?;
        let opens = counted(seen.storm.missed_opens, "open", "opens");
        let stats = counted(seen.storm.missed_stats, "stat", "stats");
        terminal::line(format_args!("{:<9} {opens} and {stats} failed", "becalm:"))?;
        let mut command = Command::new(program);
        command.env_clear().envs(environment(variables));
        command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_DEBUG", "libs");
        let listed = oracle::run(command, program, self.args.time_limit);
        let listed = listed.map_err(|error| self.explained(error.into()))?;
        let tried = listed.stderr.find_iter("trying file=").count() as u64;
        let tried = counted(tried, "file", "files");
        terminal::line(format_args!(
            "{:<9} the loader tried {tried}, with those found",
            "LD_DEBUG:"
        ))?;
        Ok(seen)
    }

    /// Traces a start.
    fn traced(&self, program: &Path, variables: &Variables) -> Result<Seen> {
        let mut command = trace::Command::new(program, arguments(None, &self.args.args)?);
        command.env = Some(environment(variables));
        command.streams = Some(Streams::with_stderr(tempfile::tempfile_in(&self.dir)?)?);
        let watched = watch(&Options::default(), &command, self.args.time_limit);
        let report = watched.map_err(|error| self.explained(error))?;
        let file = path_bytes(program);
        let mut images = report.images.into_iter();
        images.find(|seen| seen.file == file).context("the program was not started")
    }

    /// Returns the error of a run, with what helps against one that does not end.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast_ref() {
            Some(TraceError::TooLong { .. }) => anyhow!(
                "the program did not end within {} s and was killed; name other arguments: becalm demo \
                 PROGRAM -- ARGS",
                self.args.time_limit.as_secs_f64()
            ),
            _ => error,
        }
    }

    fn tell(&self, before: &Seen, after: &Seen, program: &Path) -> Result<()> {
        let (was, left) = (before.storm.misses(), after.storm.misses());
        let [was, left, gone] = [was, left, was.saturating_sub(left)].map(grouped);
        let gone = self.look.good(&format!("{gone} of {was} misses are gone"));
        let what = if left == "0" { "none is left".to_owned() } else { format!("{left} are left") };
        let [took, takes] = [before, after].map(|seen| milliseconds(seen.loader.net_ns));
        terminal::line(format_args!(
            "\n{gone}; {what}. The loader took {took} ms before main, and takes {takes}.\nnext  becalm run -- {}",
            program.display()
        ))?;
        if self.args.keep.is_some() {
            let index = self.dir.join("index.so");
            let kept = self.dir.display();
            terminal::line(format_args!(
                "kept  {kept}\n      eval \"$(becalm env --index {})\"   # this shell starts the programs of {kept}/store with it",
                index.display()
            ))?;
        }
        Ok(())
    }
}

/// Returns the program of a folder that loads most libraries.
fn largest(folder: &Path) -> Result<PathBuf> {
    let assumed = Assumptions::new(&plain_assumptions())?;
    let found = targets::find(&assumed, &[folder.to_owned()]);
    let some = |files: &[Target]| {
        let session = assumed.fs.session();
        let one = |file: &Target| {
            let (program, _) = check(&assumed, &session, file).ok()??;
            let is_whole = program.interpreter.is_some() && program.unresolved.is_empty();
            is_whole.then(|| (program.storm.objects, file.host.clone()))
        };
        files.iter().filter_map(one).collect::<Vec<_>>()
    };
    let programs: Vec<(u64, PathBuf)> = found.files.par_chunks(64).flat_map_iter(some).collect();
    let largest = programs.into_iter().max_by_key(|(objects, _)| *objects).map(|(_, path)| path);
    largest.with_context(|| format!("{}: no program with libraries; name one", folder.display()))
}
