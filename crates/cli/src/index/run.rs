//! `becalm index`: stores → one file that calms their programs without touching them.
//!
//! The host walks the stores and asks the core's questions, [`module`] puts the table into
//! the audit module, [`file`] writes it; [`crate::index::text`] tells it. What `becalm run`,
//! `becalm env` and `becalm verify` need of an index is here as well.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::closure::{self, Subject};
use becalm_core::elf::machine_name;
use becalm_core::facts::Environment;
use becalm_core::index::Index;
use becalm_core::loader::load::Role;
use becalm_host::index_store::{
    BindThreshold, Binding, IndexOptions, Indexed, MachineIndex, index_stores, python_of,
    update_stores,
};
use becalm_host::{FactChoice, OsFs, loader_facts};
use becalm_lib::index::file;
use becalm_lib::index::file::Whole;
use becalm_lib::index::module::Modules;
use becalm_lib::index::{current, places, trust};
use becalm_lib::path::dirs_of;
use becalm_lib::path::path_bytes;
use becalm_lib::path::path_of;
use becalm_lib::targets::Problem;
use becalm_lib::words::{words, words_of_host};
use bstr::{BString, ByteSlice};

use crate::exit_code::ExitStatus;
use crate::index::args::IndexArgs;
use crate::index::report::Report;
use crate::index::text;
use crate::jobs;
use crate::terminal::progress::Count;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};

/// Indexes and writes. `before_work` is called when the arguments are known to be right.
///
/// # Errors
/// Where a store is not there, nothing could be indexed, or the index cannot be written.
pub(crate) fn run(args: &IndexArgs, color: When, before_work: fn()) -> Result<ExitStatus> {
    let path = place(args)?;
    let modules = Modules::new(args.module.as_deref())?;
    let old = old(args, &path)?;
    let programs = programs(args, old.as_ref())?;
    if let Some(old) = &old
        && old.is_current_version
        && args.stores.is_empty()
        && is_of(args, old)
        && programs.iter().all(|program| binds(&old.index, program))
        && modules.has_sealed(old.target, &old.table, &old.bytes)
        && current::is_current(&old.index)
    {
        return tell_current(args, &path, old, color);
    }
    let (mut stores, dirs) = what(args, old.as_ref().map(|old| &old.index), &programs)?;
    let mut files = add_pythons(&mut stores);
    for program in &programs {
        files.extend(libraries_of(program)?);
    }
    jobs::limit(args.jobs)?;
    // Those that were immutable for it and hold answers.
    let known: Vec<PathBuf> = old
        .iter()
        .flat_map(|old| current::roots(&old.index).map(|condition| path_of(condition.path())))
        .collect();
    let all = [args.store.prefixes().paths(), known.clone()].concat();
    let (stores, files) = (&stores, &files);
    let is_alone = stores.is_empty();
    let usual = if is_alone { BindThreshold::ALL } else { BindThreshold::default() };
    let threshold = args.bind_threshold.unwrap_or(usual);
    let only = is_alone.then_some(&programs[..]);
    let bind = Some(Binding { threshold, only, environment: None });
    let (prefixes, dirs) = (&all, &dirs);
    let options = IndexOptions { stores, files, prefixes, dirs, bind, ..IndexOptions::default() };
    before_work();
    let report = make(&path, &modules, old.as_ref().map(|old| (old, &known[..])), options)?;
    tell(args, &report, color)?;
    let failed = !report.problems.is_empty();
    Ok(if failed { ExitStatus::Failure } else { ExitStatus::Fine })
}

/// The programs that are named, by their real paths; of an index without stores that is brought up
/// to date, those that it binds.
fn programs(args: &IndexArgs, old: Option<&Whole>) -> Result<Vec<PathBuf>> {
    let real = |program: &PathBuf| {
        let real = program.canonicalize();
        real.map_err(|error| anyhow!("{}: {}", program.display(), words(&error)))
    };
    if args.program.is_empty() && args.stores.is_empty() {
        let bound = old.iter().filter(|old| current::stores(&old.index).is_empty());
        let bound = bound.flat_map(|old| &old.index.bound.programs);
        return Ok(bound.map(|program| path_of(program.path.as_ref())).collect());
    }
    let programs: Vec<PathBuf> = args.program.iter().map(real).collect::<Result<_>>()?;
    check_one_machine(&programs)?;
    Ok(programs)
}

/// An index is for one machine.
fn check_one_machine(programs: &[PathBuf]) -> Result<()> {
    let machine = |program: &PathBuf| {
        let session = OsFs::new();
        let subject = Subject::open(&session.session(), path_bytes(program).as_ref())?;
        Ok::<_, anyhow::Error>(machine_name(subject.view.ident.machine))
    };
    let Some(first) = programs.first() else { return Ok(()) };
    let of_first = machine(first)?;
    for program in programs {
        let other = machine(program)?;
        if other != of_first {
            bail!(
                "{} is for {other}, {} for {of_first}: an index is for one machine; make another \
                 with becalm index --program {} -o FILE",
                program.display(),
                first.display(),
                program.display()
            );
        }
    }
    Ok(())
}

fn binds(index: &Index, program: &Path) -> bool {
    index.bound.programs.iter().any(|bound| bound.path == path_bytes(program))
}

/// A program and the libraries that its start loads in an empty environment.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let os = OsFs::new();
    let session = os.session();
    let shown = || program.display().to_string();
    let subject = Subject::open(&session, path_bytes(program).as_ref()).with_context(shown)?;
    let interpreter = subject.interpreter().unwrap_or_default().to_owned();
    let facts = loader_facts(&os, interpreter.as_ref(), &FactChoice::default());
    let facts = facts.map_err(|error| {
        let (path, reason) = words_of_host(&error);
        anyhow!("{}: interpreter {}: {reason}", shown(), path.as_bstr())
    })?;
    let environment = Environment::default();
    let closure = closure::resolve(&session, subject, interpreter.as_ref(), facts, &environment);
    let closure = closure.with_context(shown)?;
    let objects = closure.load.objects.iter();
    let objects = objects.filter(|object| matches!(object.role, Role::Program | Role::Library));
    Ok(objects.map(|object| path_of(object.path.as_ref())).collect())
}

/// The index to bring up to date. One that somebody else may have written is told of and not
/// read: neither its answers nor its list of stores count.
fn old(args: &IndexArgs, path: &Path) -> Result<Option<Whole>> {
    if !args.update || !path.exists() {
        return Ok(None);
    }
    match file::read_trusted(path) {
        Err(error) if error.is::<trust::Untrusted>() => {
            if args.stores.is_empty() {
                bail!("{error}; name the stores, and it is made anew from their files");
            }
            terminal::note(path_bytes(path).as_ref(), &format!("{error}; made anew"));
            Ok(None)
        }
        old => old.map(Some),
    }
}

/// Where the index goes; the default place is made.
fn place(args: &IndexArgs) -> Result<PathBuf> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => {
            let path = places::own().context("no home directory; name the index with -o")?;
            let dir = path.parent().unwrap_or(Path::new("/"));
            let made = std::fs::create_dir_all(dir);
            made.map_err(|error| anyhow!("{}: {}", dir.display(), words(&error)))?;
            path
        }
    };
    file::check_place(&path)?;
    Ok(path)
}

/// True where the directories asked for are those of the index.
fn is_of(args: &IndexArgs, old: &Whole) -> bool {
    let (mut wanted, mut known) = (dirs_of(&args.dirs), current::snapshotted(&old.index));
    wanted.sort();
    wanted.dedup();
    known.sort();
    wanted.is_empty() || wanted == known
}

fn tell_current(args: &IndexArgs, path: &Path, old: &Whole, color: When) -> Result<ExitStatus> {
    let mut out = Stdout::new();
    if args.json {
        text::json_current(&mut out, path, old)?;
    } else {
        text::text_current(&mut out, Look::of_stdout(color), path)?;
    }
    out.flush()?;
    Ok(ExitStatus::Fine)
}

/// The stores to walk and the directories to snapshot: those named, else those of the index
/// that is brought up to date.
fn what(
    args: &IndexArgs,
    old: Option<&Index>,
    programs: &[PathBuf],
) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut stores = args.stores.clone();
    let mut dirs = dirs_of(&args.dirs);
    if let Some(old) = old {
        if stores.is_empty() && programs.is_empty() {
            stores.extend(current::stores(old));
        }
        if dirs.is_empty() {
            dirs.extend(current::snapshotted(old));
        }
    }
    if stores.is_empty() && programs.is_empty() {
        bail!("nothing to update: name the stores");
    }
    for store in &mut stores {
        let absolute = std::path::absolute(&*store);
        let facts = store.metadata();
        let facts = facts.map_err(|error| anyhow!("{}: {}", store.display(), words(&error)))?;
        if !facts.is_dir() {
            bail!("{}: not a folder", store.display());
        }
        *store = absolute.with_context(|| store.display().to_string())?;
    }
    Ok((stores, dirs))
}

/// Adds to the virtual environments among the stores the trees of the Pythons that they were made
/// from. Returns the programs of these.
fn add_pythons(stores: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    for (program, trees) in stores.clone().iter().filter_map(|store| python_of(store)) {
        programs.push(program);
        let is_below = |tree: &PathBuf| stores.iter().any(|store| tree.starts_with(store));
        let new: Vec<PathBuf> = trees.into_iter().filter(|tree| !is_below(tree)).collect();
        stores.extend(new);
    }
    programs
}

/// Indexes the stores, with what still holds of an old index, and writes the file. Of the old one
/// the prefixes go with it that are known to have been immutable for it: `--store` may have been
/// another then.
fn make(
    path: &Path,
    modules: &Modules,
    old: Option<(&Whole, &[PathBuf])>,
    options: IndexOptions<'_>,
) -> Result<Report> {
    let IndexOptions { stores, dirs, .. } = options;
    let count = Count::new("files looked at");
    let tick = |files: usize| count.add(files);
    let options = IndexOptions { progress: Some(&tick), ..options };
    let os = OsFs::new();
    // Without stores there is little to keep.
    let updated = old.filter(|_| !stores.is_empty()).and_then(|(old, known)| {
        let of_old = IndexOptions { prefixes: known, ..options };
        let ways = [options, of_old].into_iter();
        // An older version has not all that is kept.
        let mut ways = ways.filter(|_| old.is_current_version);
        ways.find_map(|way| update_stores(&os, &old.index, old.target, way))
    });
    let kept = updated.as_ref().map(kept_of);
    let mut indexed = updated.unwrap_or_else(|| index_stores(&os, options));
    count.finish();
    let errors = std::mem::take(&mut indexed.errors);
    let problems = errors.iter().map(words_of_host);
    let problems: Vec<Problem> = problems.map(|(path, reason)| Problem { path, reason }).collect();
    if indexed.machines.is_empty() {
        terminal::note_all(&problems);
    }
    let sealed = modules.seal(indexed)?;
    file::write(path, &sealed)?;
    let known = &sealed.machine.index.directories;
    let snapshotted =
        |dir: &BString| known.iter().any(|known| known.path == *dir && known.names.is_some());
    let mut unsnapshotted: Vec<BString> = dirs.iter().map(|dir| path_bytes(dir)).collect();
    unsnapshotted.retain(|dir| !snapshotted(dir));
    Ok(Report {
        path: path_bytes(path),
        stores: stores.iter().map(|store| path_bytes(store)).collect(),
        kept: kept.unwrap_or(0),
        unsnapshotted,
        problems,
        sealed,
    })
}

fn kept_of(updated: &Indexed) -> usize {
    let objects = |machine: &MachineIndex| {
        let named = machine.index.objects.iter().filter(|object| !object.path.is_empty());
        named.count().saturating_sub(machine.read)
    };
    updated.machines.iter().map(objects).sum()
}

fn tell(args: &IndexArgs, report: &Report, color: When) -> Result<()> {
    terminal::note_all(&report.problems);
    let mut out = Stdout::new();
    if args.json {
        text::json(&mut out, report)?;
    } else {
        text::text(&mut out, Look::of_stdout(color), report)?;
    }
    out.flush()?;
    Ok(())
}
