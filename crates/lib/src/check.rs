//! Checks one file: its kind, and the cost of its start.

pub mod budget;
pub mod starts;

use std::io::{self, Write};

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::loader::load::{Answer, Refusal, Resolution, Role, Stop};
use becalm_core::loader::{GlibcVersion, Libc};
use becalm_core::macho;
use becalm_core::path;
use becalm_core::probe::Probe;
use becalm_core::search::hwcaps::FIRST_WITHOUT_LEGACY;
use becalm_core::symbols::SymbolReport;
use becalm_host::Session;
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;
use serde::{Serialize, Serializer};

use crate::advice::Advice;
use crate::assume::Assumptions;
use crate::beside::Beside;
use crate::estimate::Estimate;
use crate::files::StartFile;
use crate::follow::{Followed, follow, follow_by_release};
use crate::json::{self, as_json, displayed, displayed_option, lossy, lossy_list, lossy_option};
use crate::loaded_index::{IndexedBindings, IndexedStart, applied, by_index};
use crate::targets::{Problem, Target};

/// The predicted start of one file.
#[derive(Debug, Default, Serialize)]
pub struct Program {
    /// The file, as it was named or found.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Its kind.
    pub kind: Kind,
    /// Its machine, as in `uname -m`.
    pub machine: &'static str,
    /// The C library whose rules were followed, for example `glibc-2.36`; null if no loader is
    /// involved.
    #[serde(serialize_with = "displayed_option")]
    pub libc: Option<Libc>,
    /// The loader; null if there is none.
    #[serde(serialize_with = "lossy_option")]
    pub interpreter: Option<BString>,
    /// True if it would start in secure-execution mode.
    pub secure: bool,
    /// True if it is below a store prefix.
    pub immutable: bool,
    /// The index that the start loads as an audit module.
    #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
    pub calmed_by: Option<BString>,
    /// The symbol bindings that this index applies.
    #[serde(rename = "indexed_bindings", skip_serializing_if = "Option::is_none")]
    pub bindings: Option<IndexedBindings>,
    /// The effect of the index of `--index`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indexed: Option<IndexedStart>,
    /// The cost of the search.
    pub storm: SearchCost,
    /// Objects besides the program and the loader.
    #[serde(skip)]
    pub libraries: usize,
    /// The number of directories of those objects.
    #[serde(skip)]
    pub library_dirs: usize,
    /// The same start by the first glibc without legacy hwcaps subdirectories, predicted with the
    /// same files, environment and CPU; absent if the program's own glibc is as new, or no miss is in
    /// a hwcaps subdirectory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_glibc: Option<Newer>,
    /// The estimated time of the start; absent if several files are checked (but with `--times`), and for a
    /// start that is not by glibc on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// The misses that each strategy would leave; absent if several files are checked, for a
    /// library, and if there are no misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Needed strings that are not found.
    #[serde(serialize_with = "needed_strings")]
    pub unresolved: Vec<Gap>,
    /// The reason why the loader would stop before the program's entry point, or null.
    pub stop: Option<String>,
    /// True if the prediction was cut short.
    #[serde(skip)]
    pub incomplete: bool,
    /// Symbols that the loader looks up before `main` without an index (`--max-lookups`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups: Option<u64>,
    /// True if it exceeds a budget (`--max-misses`, `--max-lookups`, `--max-ms`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<bool>,
    /// The scripts that run the program, outermost first.
    #[serde(serialize_with = "lossy_list", skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<BString>,
    /// The files that its start needs (`--files`), each once, links before their targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<StartFile>>,
    /// The probes in the loader's order (`--probes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<Probe>>,
    /// The definitions that its symbols bind to (`--symbols`, `--bindings`), [below](#symbols); absent
    /// for a static program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbols: Option<SymbolReport>,
    /// The comparison with a record (`--against`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Beside>,
    /// The slices of a Mach-O file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<Vec<Slice>>,
}

/// The checked files: the JSON document of `becalm check`, which [`Document`] writes in parts.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The programs, one for each file.
    pub programs: Vec<Program>,
    /// The sum of the search costs.
    pub total: SearchCost,
    /// Files that could not be checked.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

json::schema!(Report, "becalm/check/1");

/// The same start by another release of glibc.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Newer {
    /// The release, for example `glibc-2.37`.
    #[serde(serialize_with = "displayed")]
    pub libc: Libc,
    /// The cost of the search.
    pub storm: SearchCost,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program with an interpreter.
    #[default]
    Program,
    /// A shared library.
    Library,
    /// A program without an interpreter.
    Static,
    /// A file of macOS.
    #[serde(rename = "mach-o")]
    MachO,
}

/// Counts of the load commands of one slice of a Mach-O file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// The CPU.
    pub cpu: &'static str,
    /// The number of dylibs.
    pub dylibs: usize,
    /// Dylibs with an absolute name.
    pub absolute: usize,
    /// Dylibs that are searched along the run paths.
    pub rpath_dylibs: usize,
    /// The number of run paths (`LC_RPATH`).
    pub rpaths: usize,
    /// Paths that dyld may try at most.
    pub dyld_candidates: usize,
}

impl Slice {
    fn of(slice: &macho::Slice) -> Self {
        let count =
            |prefix: &[u8]| slice.dylibs.iter().filter(|name| name.starts_with(prefix)).count();
        Self {
            cpu: slice.cpu,
            dylibs: slice.dylibs.len(),
            absolute: count(b"/"),
            rpath_dylibs: count(b"@rpath/"),
            rpaths: slice.rpaths.len(),
            dyld_candidates: slice.dyld_candidates(),
        }
    }
}

/// The JSON document of [`Report`], written program by program, one per line, so that the probes of
/// a folder are never all in memory.
#[derive(Debug)]
pub struct Document;

impl Document {
    /// Writes the beginning, up to the first program. The caller writes the commas between
    /// programs.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn begin(out: &mut impl Write) -> io::Result<()> {
        let schema = <Report as json::Report>::SCHEMA;
        writeln!(out, "{{\"schema\":\"{schema}\",\"programs\":[")
    }

    /// Writes the end: the total, and the files that could not be checked.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn end(out: &mut impl Write, programs: &[Program], problems: &[Problem]) -> io::Result<()> {
        let mut total = SearchCost::default();
        programs.iter().for_each(|program| total.add(&program.storm));
        out.write_all(b"\n],\"total\":")?;
        out.write_all(&as_json(&total))?;
        out.write_all(b",\"errors\":")?;
        out.write_all(&as_json(&problems))?;
        out.write_all(b"}\n")
    }
}

fn needed_strings<S: Serializer>(gaps: &[Gap], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(gaps.iter().map(|gap| gap.needed.to_str_lossy()))
}

/// A needed string that is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The string.
    pub needed: BString,
    /// The first requester.
    pub needed_by: BString,
    /// The reason why the found file is rejected.
    pub refusal: Option<Refusal>,
}

/// A predicted start, and the closure of an ELF file.
pub type Start = (Box<Program>, Option<Closure>);

/// Predicts the start of one file with the session's view of the file system. Also returns the
/// closure of an ELF file. `None` for a file in a folder that is neither a program nor a library.
///
/// # Errors
/// Returns a [`Problem`] if the file cannot be checked.
pub fn check(
    assumed: &Assumptions,
    session: &Session<'_>,
    target: &Target,
) -> Result<Option<Start>, Problem> {
    match follow(assumed, session, target, &assumed.environment) {
        Ok(Followed::Elf(plain, secure)) => {
            let (closure, calmed_by) = calmed(assumed, session, target, plain);
            let program = Program::new(assumed, target, &closure, secure);
            let index = calmed_by.as_ref();
            let bindings = index.and_then(|index| applied(assumed, session, index, &closure).ok());
            let program = Program { calmed_by, bindings, ..program };
            Ok(Some((Box::new(program), Some(*closure))))
        }
        Ok(Followed::MachO(slices)) => {
            Ok(Some((Box::new(Program::of_mac(assumed, target, &slices)), None)))
        }
        Ok(Followed::Nothing) => Ok(None),
        Err(error) => Err(Problem::new(target.shown.clone(), error)),
    }
}

/// As [`check`], for an ELF file alone; `other` says what any other file is.
///
/// # Errors
/// Returns a [`Problem`] if the file cannot be checked or is no ELF file.
pub fn start(
    assumed: &Assumptions,
    session: &Session<'_>,
    target: &Target,
    other: &str,
) -> Result<(Box<Program>, Closure), Problem> {
    let elf = check(assumed, session, target)?.and_then(|(it, closure)| Some((it, closure?)));
    elf.ok_or_else(|| Problem::new(target.shown.clone(), other))
}

/// Returns the start with the answers of its index. A start without an index is returned unchanged.
fn calmed(
    assumed: &Assumptions,
    session: &Session<'_>,
    target: &Target,
    plain: Box<Closure>,
) -> (Box<Closure>, Option<BString>) {
    let Some((index, environment)) = by_index(assumed, session, &plain) else {
        return (plain, None);
    };
    match follow(assumed, session, target, &environment) {
        Ok(Followed::Elf(closure, _)) => (closure, Some(index)),
        _ => (plain, None),
    }
}

/// Predicts the same start with the first glibc that has no legacy hwcaps subdirectories, because
/// these subdirectories cause most misses. Returns `None` if the program's own glibc is as new, or
/// if no miss is in a hwcaps subdirectory.
#[must_use]
pub fn by_newer_glibc(
    assumed: &Assumptions,
    session: &Session<'_>,
    (program, closure): (&Program, &Closure),
) -> Option<Newer> {
    let first = Libc::Glibc(GlibcVersion { major: 2, minor: FIRST_WITHOUT_LEGACY });
    let is_older = matches!(program.libc, Some(own @ Libc::Glibc(_)) if own < first);
    if !is_older || program.calmed_by.is_some() || program.storm.hwcaps_misses == 0 {
        return None;
    }
    let closure = follow_by_release(assumed, session, closure, program.secure, first)?;
    Some(Newer { libc: first, storm: SearchCost::of(&closure.load) })
}

impl Program {
    /// Returns true if its start has a finding: a library that is not found, a loader that stops,
    /// more misses than its budget, or missing symbols. Missing symbols of a library checked by
    /// itself count only if `strict` is set, because an object that loads the library may define
    /// them.
    #[must_use]
    pub fn is_finding(&self, strict: bool) -> bool {
        let lacks_symbols = self.symbols.as_ref().is_some_and(SymbolReport::is_incomplete)
            && (self.kind != Kind::Library || strict);
        let is_broken = !self.unresolved.is_empty() || self.stop.is_some();
        is_broken || self.over_budget == Some(true) || lacks_symbols
    }

    /// Returns the estimated time of the loader, with the index of the start if it has one.
    #[must_use]
    pub fn loader_ns(&self) -> Option<u64> {
        let estimate = self.estimate?;
        let indexed = estimate.indexed_ns.filter(|_| self.calmed_by.is_some());
        Some(indexed.unwrap_or(estimate.loader_ns))
    }

    /// Adds the estimate of the start, as it is without an index.
    pub fn add_estimate(
        &mut self,
        assumed: &Assumptions,
        session: &Session<'_>,
        target: &Target,
        closure: &Closure,
    ) {
        self.estimate = match self.calmed_by {
            None => Estimate::of(assumed, closure, self.secure),
            Some(_) => Estimate::without_index(assumed, session, target),
        };
    }

    fn new(assumed: &Assumptions, target: &Target, closure: &Closure, secure: bool) -> Self {
        let load = &closure.load;
        let libraries =
            || load.objects.iter().filter(|o| !matches!(o.role, Role::Program | Role::Loader));
        let dirs: FxHashSet<&BStr> = libraries().map(|object| path::dir(&object.path)).collect();
        let loader = load.objects.iter().find(|object| object.role == Role::Loader);
        let kind = match closure.subject.kind {
            SubjectKind::Program => Kind::Program,
            SubjectKind::Library => Kind::Library,
            SubjectKind::Static => Kind::Static,
        };
        Self {
            libc: closure.facts.as_ref().map(|facts| facts.libc),
            interpreter: loader.map(|object| object.path.clone()),
            secure,
            storm: SearchCost::of(load),
            libraries: libraries().count(),
            library_dirs: dirs.len(),
            unresolved: gaps(closure),
            stop: stop_of(closure),
            incomplete: load.stop == Some(Stop::TooManyProbes),
            ..Self::bare(assumed, target, kind, closure.subject.view.ident.machine_name())
        }
    }

    fn of_mac(assumed: &Assumptions, target: &Target, slices: &[macho::Slice]) -> Self {
        let machine = match slices {
            [] => "unknown",
            [only] => only.cpu,
            _ => "universal",
        };
        Self {
            slices: Some(slices.iter().map(Slice::of).collect()),
            ..Self::bare(assumed, target, Kind::MachO, machine)
        }
    }

    /// Returns a file of which only kind and machine are known.
    fn bare(assumed: &Assumptions, target: &Target, kind: Kind, machine: &'static str) -> Self {
        Self {
            path: target.shown.clone(),
            kind,
            machine,
            immutable: assumed.stores.contain_file(&assumed.fs.session(), target.inside.as_ref()),
            ..Self::default()
        }
    }
}

/// Returns the unresolved needed strings, each once, with the first requester.
fn gaps(closure: &Closure) -> Vec<Gap> {
    let load = &closure.load;
    let mut seen = FxHashSet::default();
    load.resolutions
        .iter()
        .filter(|resolution| resolution.is_unresolved() && seen.insert(&resolution.needed))
        .map(|resolution| Gap {
            needed: resolution.needed.clone(),
            needed_by: load.objects[resolution.needed_by].path.clone(),
            refusal: refusal_of(resolution),
        })
        .collect()
}

fn refusal_of(resolution: &Resolution) -> Option<Refusal> {
    match resolution.answer {
        Answer::Refused(refusal) => Some(refusal),
        _ => None,
    }
}

/// Returns the reason why the loader stops before the program's entry point.
fn stop_of(closure: &Closure) -> Option<String> {
    if closure.load.stop == Some(Stop::ExecStack) {
        return Some("the program: executable stack is not allowed (glibc.rtld.execstack)".into());
    }
    let fatal = closure.fatal()?;
    let needed = crate::escape::shown(fatal.needed.as_ref());
    let why = refusal_of(fatal).map_or("not found".to_owned(), |refusal| refusal.to_string());
    Some(format!("{needed}: {why}"))
}
