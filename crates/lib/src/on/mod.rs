//! Programs that start by an index whenever they are called (`becalm on`, `becalm off`).
//!
//! [`folder`] has a link for each program, all of which lead to a starter (`starter/`); [`shells`] puts
//! it at the front of `PATH`. [`choose`] finds the programs that gain, [`fit`] those that can, and
//! [`launchers`] those of desktops. [`table`] is the file that the starter reads. [`fresh`] compares it
//! with the files as they are, and [`counts`] has the number of starts.

mod choose;
mod counts;
mod fit;
mod folder;
mod fresh;
mod launchers;
mod shells;
pub(crate) mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

pub use self::choose::{NotChosen, Trials};
use self::folder::{Folder, missing_dirs};
use self::launchers::Launchers;
pub use self::shells::PathFile;
use crate::json;
use crate::pages;
use crate::progress::Progress;
use crate::words::words_of_chain;

/// The programs to switch on, and for whom.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of `PATH`, or paths; none for every program that gains.
    pub programs: Vec<OsString>,
    /// True for all users.
    pub system: bool,
    /// True to make the index of what is switched on again, and to switch on nothing else.
    pub update: bool,
    /// True if the plan will be applied, so that a folder that cannot be written is an error at once.
    pub writes: bool,
    /// True if the named programs, or those that are chosen, use ready pages ([`crate::pages`]).
    pub share_pages: bool,
}

/// A program that is switched on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// The name of its link.
    pub name: String,
    /// The path that was found for it.
    pub path: PathBuf,
    /// The number of symbol bindings that the index has for it.
    pub bindings: u32,
    /// The median time of a plain start with `--version`, in nanoseconds; null if it was not measured.
    pub plain_ns: Option<u64>,
    /// The median time of a start by the index.
    pub on_ns: Option<u64>,
    /// True if it uses ready pages.
    #[serde(default)]
    pub shares_pages: bool,
    /// True if it starts by the index, and it and its libraries are as they were; null before.
    #[serde(skip_deserializing)]
    pub fresh: Option<bool>,
    /// The number of its starts by its link on this machine, also plain ones; null if they are not counted.
    #[serde(skip_deserializing)]
    pub starts: Option<u64>,
    /// Seconds from 1970 to the moment when counting began.
    #[serde(skip_deserializing)]
    pub counted_since: Option<u64>,
    /// Desktop launchers that name it by its path, so that they start it plainly.
    #[serde(skip_deserializing)]
    pub launchers: Vec<String>,
    /// The file that the path leads to, if it was predicted to start by an index.
    #[serde(skip)]
    pub real: Option<PathBuf>,
}

/// The JSON document of `becalm on`.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The folder that is put into `PATH`.
    #[serde(serialize_with = "json::lossy_os")]
    pub folder: PathBuf,
    /// The programs that are switched on.
    pub programs: Vec<Program>,
    /// The programs that were started to find those that gain.
    pub trials: Trials,
    /// The files that put the folder into `PATH`.
    pub files: Vec<PathFile>,
    /// True if something was written.
    pub written: bool,
    /// Refused programs and files of `PATH`, each with the reason.
    pub problems: Vec<String>,
}

json::schema!(Report, "becalm/on/1");

/// A report of what will be switched on.
pub struct Plan {
    /// The report, before anything is written.
    pub report: Report,
    folder: Folder,
}

fn folder_of(system: bool) -> Result<Folder> {
    if system { Ok(Folder::of_system(Path::new("/"))) } else { Folder::of_user() }
}

/// Finds the programs to switch on, with those that are. Writes nothing but a scratch folder.
///
/// # Errors
/// Returns an error if no named program can be switched on, or the folder cannot be used.
pub fn plan(options: &Options, progress: &dyn Progress) -> Result<Plan> {
    let folder = folder_of(options.system)?;
    folder.check()?;
    if options.writes {
        folder.check_room()?;
    }
    let mut programs = folder.record()?.programs;
    let launchers = Launchers::of_environment(options.system);
    let (mut trials, mut problems) = (Trials::default(), Vec::new());
    let mut new = if options.update {
        Vec::new()
    } else if options.programs.is_empty() {
        let (chosen, made) = choose::of_path(&folder.bin(), &launchers, options.system, progress)?;
        trials = made;
        chosen
    } else {
        let mut fit = Vec::new();
        for named in choose::named(&options.programs, &folder.bin()) {
            match named {
                Ok(program) => fit.push(program),
                Err(error) => problems.push(words_of_chain(error.as_ref())),
            }
        }
        ensure!(!fit.is_empty(), problems.join("; "));
        fit
    };
    new.iter_mut().for_each(|it| it.shares_pages = options.share_pages);
    programs.retain(|old| new.iter().all(|new| new.name != old.name));
    programs.extend(new);
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    launchers.add_to(&mut programs);
    let (bin, files) = (folder.bin(), folder.files.clone());
    let report = Report { folder: bin, programs, trials, files, problems, written: false };
    Ok(Plan { report, folder })
}

/// Switches the programs of a plan on.
///
/// # Errors
/// Returns an error if the folder cannot be written.
pub fn apply(plan: Plan, progress: &dyn Progress) -> Result<Report> {
    let Plan { mut report, folder } = plan;
    if report.programs.is_empty() {
        return Ok(report);
    }
    let (lock, made) = folder.lock()?;
    let mut record = folder.record()?;
    // Programs that another becalm has switched on meanwhile stay on.
    let is_new = |old: &Program| report.programs.iter().all(|new| new.name != old.name);
    let others: Vec<Program> = record.programs.iter().filter(|old| is_new(old)).cloned().collect();
    report.programs.extend(others);
    record.made.extend(made);
    // Before they are made, because this process may be killed.
    record.made.extend(report.files.iter().flat_map(|file| missing_dirs(file.dir())));
    record.counts = folder.counts();
    folder.set_record(&record)?;
    for file in &mut report.files {
        if let Err(error) = folder.add_to(file) {
            report.problems.push(words_of_chain(error.as_ref()));
        }
    }
    report.programs = folder.fill(report.programs, progress)?;
    record.programs.clone_from(&report.programs);
    folder.set_record(&record)?;
    drop(lock);
    report.written = true;
    Ok(report)
}

/// Returns what is switched on, without a look at the files.
///
/// # Errors
/// Returns an error if the record cannot be read.
pub fn programs(system: bool) -> Result<Vec<Program>> {
    Ok(folder_of(system)?.record()?.programs)
}

/// Returns what is switched on, without the launchers.
///
/// # Errors
/// Returns an error if the record cannot be read.
pub fn switched_on(system: bool) -> Result<Vec<Program>> {
    let folder = folder_of(system)?;
    let mut programs = folder.record()?.programs;
    fresh::examine(&folder, &mut programs);
    Ok(programs)
}

/// Lists what is switched on.
///
/// # Errors
/// Returns an error if the record cannot be read.
pub fn list(system: bool) -> Result<Report> {
    let mut programs = switched_on(system)?;
    let folder = folder_of(system)?;
    if let Some(counted) = folder.record()?.counts {
        programs.iter_mut().for_each(|program| counts::read(&counted, program));
    }
    Launchers::of_environment(system).add_to(&mut programs);
    Ok(Report { folder: folder.bin(), programs, ..Report::default() })
}

/// The JSON document of `becalm off`.
#[derive(Debug, Default, Serialize)]
pub struct OffReport {
    /// The names that were switched off.
    pub programs: Vec<String>,
    /// The files that had put the folder into `PATH`, if all was switched off.
    pub files: Vec<PathFile>,
}

json::schema!(OffReport, "becalm/off/1");

/// Switches programs off; all of them, and the folder, if none are named.
///
/// # Errors
/// Returns an error if a named program is not switched on, or something cannot be removed.
pub fn off(names: &[OsString], system: bool, progress: &dyn Progress) -> Result<OffReport> {
    let mut folder = folder_of(system)?;
    if !folder.root.is_dir() {
        return match names.first() {
            Some(name) => bail!("{}: not switched on", name.to_string_lossy()),
            None => Ok(OffReport::default()),
        };
    }
    let (lock, _) = folder.lock()?;
    let record = folder.record();
    let mut record = if names.is_empty() { record.unwrap_or_default() } else { record? };
    let is_named = |program: &Program| names.iter().any(|name| *name == *program.name);
    let is_off = |name: &&OsString| record.programs.iter().all(|it| **name != *it.name);
    if let Some(name) = names.iter().find(is_off) {
        bail!("{}: not switched on", name.to_string_lossy());
    }
    let (off, on): (Vec<Program>, Vec<Program>) =
        record.programs.drain(..).partition(|program| names.is_empty() || is_named(program));
    let programs: Vec<String> = off.into_iter().map(|program| program.name).collect();
    if let Some(counted) = &record.counts {
        counts::remove(&folder.writer, counted, &programs);
    }
    pages::remove_of(&folder.index());
    if !on.is_empty() {
        record.programs = folder.fill(on, progress)?;
        folder.set_record(&record)?;
        return Ok(OffReport { programs, files: Vec::new() });
    }
    let mut files = std::mem::take(&mut folder.files);
    for file in &mut files {
        // What a killed run left is less than the file itself.
        let _ = folder.writer.clean(file.dir());
        file.remove(&folder.writer)?;
    }
    if let Some(counted) = record.counts.or_else(|| counts::existing(&folder.root)) {
        counts::clear(&folder.writer, &counted);
    }
    if !record.made.contains(&folder.root) {
        // The record was lost, or begun after the folder was made.
        record.made.extend(folder.possible_dirs(&files));
    }
    folder.clear(&record.made)?;
    drop(lock);
    files.retain(|file| file.changed);
    Ok(OffReport { programs, files })
}
