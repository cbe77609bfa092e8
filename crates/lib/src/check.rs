//! One file: is it something that starts, and what would starting it take?

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::loader::load::{Answer, Refusal, Role, Stop};
use becalm_core::loader::{GlibcVersion, Libc};
use becalm_core::macho::MachO;
use becalm_core::search::hwcaps::FIRST_WITHOUT_LEGACY;
use becalm_core::symbols::SymbolReport;
use becalm_host::Session;
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashSet;

use crate::advice::Advice;
use crate::assume::Assumptions;
use crate::files::StartFile;
use crate::follow::{Followed, follow, follow_by_release};
use crate::loaded_index::{IndexedBindings, IndexedStart, bindings, by_index};
use crate::targets::{Problem, Target};

/// The result of checking one file.
#[derive(Debug)]
pub enum Verdict {
    /// Its start was followed.
    Checked(Box<Program>),
    /// Nothing that starts or is loaded, met in a folder.
    Skipped,
    /// It could not be checked.
    Problem(Problem),
}

/// The findings about one file, without the walk they come from.
#[derive(Debug)]
pub struct Program {
    /// The file, as told to the user.
    pub path: BString,
    /// The kind of file.
    pub kind: Kind,
    /// Its machine, as `uname -m` has it.
    pub machine: &'static str,
    /// The C library whose rules were followed.
    pub libc: Option<Libc>,
    /// The loader.
    pub interpreter: Option<BString>,
    /// True where it would start in secure-execution mode.
    pub secure: bool,
    /// True where it lies below a store prefix.
    pub immutable: bool,
    /// The index that answers as an audit module of its start.
    pub calmed_by: Option<BString>,
    /// The symbol bindings that it applies.
    pub bindings: Option<IndexedBindings>,
    /// The answers and bindings of that index in detail, if they were asked for.
    pub indexed: Option<IndexedStart>,
    /// The cost of the search.
    pub storm: SearchCost,
    /// Objects beside the program and the loader.
    pub libraries: usize,
    /// Directories that hold those.
    pub library_dirs: usize,
    /// Needed strings that nothing answers.
    pub unresolved: Vec<Gap>,
    /// Why the loader would give up before the program is reached.
    pub stop: Option<String>,
    /// True where the walk was cut short.
    pub incomplete: bool,
    /// Whether its misses are over the budget, where there is one.
    pub over_budget: Option<bool>,
    /// The storm of the same start by the first glibc without legacy hwcaps subdirectories,
    /// where that differs and was asked for.
    pub newer_glibc: Option<Newer>,
    /// The misses that each strategy would leave, if they were asked for.
    pub advice: Option<Advice>,
    /// Its symbols, where they were asked for.
    pub symbols: Option<SymbolReport>,
    /// The scripts that lead to it, outermost first.
    pub scripts: Vec<BString>,
    /// The files that its start needs, where they were asked for.
    pub files: Option<Vec<StartFile>>,
}

/// The same start by another release of glibc.
#[derive(Clone, Copy, Debug)]
pub struct Newer {
    /// The release.
    pub libc: Libc,
    /// The predicted cost of the search.
    pub storm: SearchCost,
}

/// The kinds of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program with an interpreter.
    Program,
    /// A shared library.
    Library,
    /// A program without one.
    Static,
    /// A file of macOS.
    MachO(MachO),
}

/// A needed string that nothing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The string.
    pub needed: BString,
    /// The first object that asks.
    pub needed_by: BString,
    /// Why what was found does not answer it.
    pub refusal: Option<Refusal>,
}

/// Follows the start of one file as the session sees it; the closure is there for ELF files
/// that were checked.
#[must_use]
pub fn check(
    assumed: &Assumptions,
    session: &Session<'_>,
    target: &Target,
) -> (Verdict, Option<Closure>) {
    match follow(assumed, session, target, &assumed.environment) {
        Ok(Followed::Elf(plain, secure)) => {
            let (closure, calmed_by) = calmed(assumed, session, target, plain);
            let program = Program::new(assumed, target, &closure, secure);
            let index = calmed_by.as_ref();
            let bindings = index.and_then(|index| bindings(assumed, session, index, &closure));
            let program = Program { calmed_by, bindings, ..program };
            (Verdict::Checked(Box::new(program)), Some(*closure))
        }
        Ok(Followed::MachO(file)) => {
            (Verdict::Checked(Box::new(Program::of_mac(assumed, target, file))), None)
        }
        Ok(Followed::Nothing) => (Verdict::Skipped, None),
        Err(reason) => (Verdict::Problem(Problem { path: target.shown.clone(), reason }), None),
    }
}

/// The start with the answers of the index that it loads, if it loads one.
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

/// The same start by the first glibc that has no legacy hwcaps subdirectories: those of the
/// program's own glibc are most of a storm. `None` where the release has none either, or where
/// no miss is in such a subdirectory.
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
    fn new(assumed: &Assumptions, target: &Target, closure: &Closure, secure: bool) -> Self {
        let load = &closure.load;
        let libraries =
            || load.objects.iter().filter(|o| !matches!(o.role, Role::Program | Role::Loader));
        let dirs: FxHashSet<&[u8]> = libraries().map(|object| dirname(&object.path)).collect();
        let loader = load.objects.iter().find(|object| object.role == Role::Loader);
        Self {
            path: target.shown.clone(),
            kind: match closure.subject.kind {
                SubjectKind::Program { .. } => Kind::Program,
                SubjectKind::Library { .. } => Kind::Library,
                SubjectKind::Static => Kind::Static,
            },
            machine: closure.subject.view.ident.machine_name(),
            libc: closure.facts.as_ref().map(|facts| facts.libc),
            interpreter: loader.map(|object| object.path.clone()),
            secure,
            immutable: assumed.is_immutable(target.inside.as_ref()),
            calmed_by: None,
            bindings: None,
            indexed: None,
            storm: SearchCost::of(load),
            libraries: libraries().count(),
            library_dirs: dirs.len(),
            unresolved: gaps(closure),
            stop: closure.fatal().map(|fatal| {
                let needed = crate::escape::shown(fatal.needed.as_ref());
                format!("{needed}: {}", words_of_answer(&fatal.answer))
            }),
            incomplete: load.stop == Some(Stop::TooManyProbes),
            over_budget: None,
            newer_glibc: None,
            advice: None,
            symbols: None,
            scripts: Vec::new(),
            files: None,
        }
    }

    fn of_mac(assumed: &Assumptions, target: &Target, file: MachO) -> Self {
        let machine = match file.slices.as_slice() {
            [] => "unknown",
            [only] => only.cpu,
            _ => "universal",
        };
        Self {
            path: target.shown.clone(),
            kind: Kind::MachO(file),
            machine,
            libc: None,
            interpreter: None,
            secure: false,
            immutable: assumed.is_immutable(target.inside.as_ref()),
            calmed_by: None,
            bindings: None,
            indexed: None,
            storm: SearchCost::default(),
            libraries: 0,
            library_dirs: 0,
            unresolved: Vec::new(),
            stop: None,
            incomplete: false,
            over_budget: None,
            newer_glibc: None,
            advice: None,
            symbols: None,
            scripts: Vec::new(),
            files: None,
        }
    }
}

fn words_of_answer(answer: &Answer) -> String {
    match answer {
        Answer::Refused(refusal) => refusal.to_string(),
        _ => "not found".to_owned(),
    }
}

/// The unresolved needed strings, each once, with the first object that asks.
fn gaps(closure: &Closure) -> Vec<Gap> {
    let load = &closure.load;
    let mut seen = FxHashSet::default();
    load.resolutions
        .iter()
        .filter(|resolution| resolution.is_unresolved() && seen.insert(&resolution.needed))
        .map(|resolution| Gap {
            needed: resolution.needed.clone(),
            needed_by: load.objects[resolution.needed_by].path.clone(),
            refusal: match resolution.answer {
                Answer::Refused(refusal) => Some(refusal),
                _ => None,
            },
        })
        .collect()
}

fn dirname(path: &[u8]) -> &[u8] {
    path.rfind_byte(b'/').map_or(b".", |slash| &path[..slash])
}
