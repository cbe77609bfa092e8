//! The state of this session: whether it uses an index, which one, whether the index is up to date
//! and readable, which programs it leaves out, and the capabilities of the loader.
//!
//! Everything is read; only the loader is run, to describe itself ([`becalm_host::ask`]).

mod index;
mod kept;
mod loader;
mod programs;
#[cfg(test)]
mod tests;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use becalm_core::index::tls;
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::ahead::record::{RecordState, records};
use crate::escape::{shown, shown_path};
use crate::index::platforms::{self, State};
use crate::index::variables::{self, AUDIT, SWITCHES, TUNABLES};
use crate::index::{file, places};
use crate::json::{self, lossy};
use crate::path::{path_bytes, path_of};
use crate::trees::{self, state::TreesState};

pub use self::index::IndexState;
pub use self::kept::{Alone, KeptIndex, ProgramState};
pub use self::loader::LoaderState;
pub use self::programs::LeftOut;

/// The variables of a session that make programs use an index.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// `LD_AUDIT`.
    pub audit: Option<OsString>,
    /// `GLIBC_TUNABLES`.
    pub tunables: Option<OsString>,
    /// `BECALM`.
    pub switches: Option<OsString>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
}

/// The state of a session: the JSON document of `becalm doctor`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// True if the index answers lookups of its programs when they are started here.
    pub calmed: bool,
    /// The modules of `LD_AUDIT`, in order.
    pub modules: Vec<Module>,
    /// The switches of `BECALM`.
    pub switches: Vec<String>,
    /// `glibc.rtld.optional_static_tls` in `GLIBC_TUNABLES`.
    pub static_tls: Option<u64>,
    /// The index of the session, otherwise the default one; `None` if there is none.
    pub index: Option<IndexState>,
    /// Programs in `PATH` that do not start in the session; empty if it uses no index.
    pub left_out: Vec<LeftOut>,
    /// The loader of `/bin/sh`; `None` if it cannot be read.
    pub loader: Option<LoaderState>,
    /// The program that was named; null if none was.
    pub program: Option<ProgramState>,
    /// The numbers of programs that have an index of their own.
    pub alone: Alone,
    /// The indexes of single programs that `becalm run` keeps; of the named program alone, if one was.
    pub kept: Vec<KeptIndex>,
    /// The records of starts whose pages are read ahead, those that were learned last first.
    pub records: Vec<RecordState>,
    /// The paths that starts look up on network file systems, and copies; `None` if there is no folder for them.
    pub trees: Option<TreesState>,
    /// Faults, the most serious first. Empty if what there is works.
    pub findings: Vec<Finding>,
}

/// One element of `LD_AUDIT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Module {
    /// The element.
    #[serde(serialize_with = "lossy")]
    pub element: BString,
    /// The file that it names.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The kind of file.
    pub is: ModuleKind,
}

/// The kinds of files that an element of `LD_AUDIT` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleKind {
    /// An index that can be used.
    Index,
    /// An index that is not used: damaged, or another user may have written it.
    BadIndex,
    /// A file that is not an index.
    Other,
    /// The file does not exist.
    Missing,
}

/// A fault of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of fault.
    pub kind: FindingKind,
    /// A description of the fault.
    pub what: String,
    /// The remedy: a command, or advice.
    pub remedy: String,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// `LD_AUDIT` names a file that does not exist.
    Missing,
    /// The index cannot be read, is damaged, or is not trusted.
    Unusable,
    /// The folder beside the index does not lead to it, or lacks entries.
    BadLinks,
    /// `BECALM` has `off`.
    SwitchedOff,
    /// The loader of this machine cannot use an index.
    Loader,
    /// There is no index.
    NoIndex,
    /// There is an index, and the session does not use it.
    NotCalmed,
    /// The stores have changed since the index was made.
    Stale,
    /// `LD_LIBRARY_PATH` names directories that the index does not have.
    LibraryPath,
    /// Programs of the index or in `PATH` need more static TLS than the session has.
    StaticTls,
    /// Programs of the index or in `PATH` that do not start in the session.
    NoStart,
}

json::schema!(Report, "becalm/doctor/1");

impl Session {
    /// Returns the session that this process was started in.
    #[must_use]
    pub fn of_process() -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            audit: variable(AUDIT),
            tunables: variable(TUNABLES),
            switches: variable(SWITCHES),
            library_path: variable("LD_LIBRARY_PATH"),
        }
    }

    fn modules(&self) -> Vec<Module> {
        let elements = variables::elements(self.audit.as_deref()).into_iter();
        elements.map(|element| Module::of(OsStr::from_bytes(element))).collect()
    }

    fn switches(&self) -> Vec<String> {
        let switches = variables::switches(self.switches.as_deref()).into_iter();
        switches.map(|switch| switch.to_str_lossy().into_owned()).collect()
    }

    fn static_tls(&self) -> Option<u64> {
        variables::static_tls(self.tunables.as_deref())
    }
}

impl Finding {
    fn new(kind: FindingKind, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, what: what.into(), remedy: remedy.into() }
    }
}

impl Module {
    fn of(element: &OsStr) -> Self {
        let path = platforms::index_of(element);
        let is = match file::open(&path) {
            Ok(_) => ModuleKind::Index,
            Err(_) if variables::is_gone(element) => ModuleKind::Missing,
            Err(_) if file::is_index(&path) || path.as_os_str() != element => ModuleKind::BadIndex,
            Err(_) => ModuleKind::Other,
        };
        Self { element: element.as_bytes().into(), path: path_bytes(&path), is }
    }
}

/// Returns the fault of the folder beside an index, and whether it keeps loaders from the index.
/// `by_folder` is true if the session names the index by that folder.
fn fault_of_folder(index: &Path, by_folder: bool) -> Option<(Finding, bool)> {
    let opened = file::open(index).ok()?;
    let dir = shown_path(&platforms::dir_of(index));
    let (what, is_astray) = match platforms::state(index, opened.index.target()) {
        State::Whole => return None,
        // `becalm env` names the index itself.
        State::Missing if !by_folder => return None,
        State::Astray if !by_folder => {
            (format!("{dir} does not lead to the index: 32-bit programs print an error"), false)
        }
        State::Missing | State::Astray => {
            (format!("{dir} does not lead to the index: every loader prints an error"), true)
        }
        State::Leads => (format!("{dir} lacks entries: some loaders may print an error"), false),
    };
    let index = shown_path(index);
    let remedy = format!("becalm index --update -o {index}");
    Some((Finding::new(FindingKind::BadLinks, what, remedy), is_astray))
}

impl Report {
    /// Adds the indexes of single programs, each of which is read and compared with its files.
    pub fn add_kept(&mut self) {
        self.kept = KeptIndex::all();
    }

    /// Adds the state of a program, and keeps only its own indexes and records. That there is no index is part
    /// of that state.
    pub fn about(&mut self, program: ProgramState) {
        self.findings.retain(|finding| finding.kind != FindingKind::NoIndex);
        self.kept.retain(|kept| kept.program == program.path);
        let is_own = |command: &str| {
            let file = Path::new(command).canonicalize();
            file.is_ok_and(|file| path_bytes(&file) == program.path)
        };
        self.records.retain(|record| is_own(&record.command));
        if let Some(trees) = &mut self.trees {
            trees.records.retain(|record| is_own(&record.command));
        }
        self.trees = self.trees.take().filter(|trees| !trees.records.is_empty());
        self.program = Some(program);
    }
}

/// Examines a session. `named` is an index to examine instead of the session's.
#[must_use]
pub fn examine(session: &Session, named: Option<&Path>) -> Report {
    let modules = session.modules();
    let switches = session.switches();
    let mut findings = Vec::new();
    for module in modules.iter().filter(|module| module.is == ModuleKind::Missing) {
        let name = shown(module.path.as_ref());
        findings.push(Finding::new(
            FindingKind::Missing,
            format!("LD_AUDIT names {name}, which does not exist: every loader prints an error"),
            "eval \"$(becalm env --undo)\", or becalm index makes it anew",
        ));
    }
    let is_off = switches.iter().any(|switch| switch == variables::OFF);
    if is_off {
        let what = "BECALM=off: the module answers nothing";
        findings.push(Finding::new(FindingKind::SwitchedOff, what, "unset BECALM"));
    }
    let loader = LoaderState::of_shell();
    findings.extend(loader.iter().flat_map(LoaderState::finding));
    let used = modules.iter().find(|m| matches!(m.is, ModuleKind::Index | ModuleKind::BadIndex));
    let is_used = used.is_some()
        && named.is_none_or(|named| Some(path_bytes(named)) == used.map(|m| m.path.clone()));
    let path = named.map(Path::to_owned);
    let path = path.or_else(|| Some(path_of(used?.path.as_ref())));
    let path: Option<PathBuf> = path.or_else(places::found);
    let static_tls = session.static_tls();
    let of_libraries = static_tls.unwrap_or(tls::DEFAULT_OPTIONAL);
    let index = path.map(|path| IndexState::of(&path, is_used, session, &mut findings));
    let known = index.iter().flat_map(|index| &index.left_out);
    let known: Vec<&BString> = known.map(|left| &left.path).collect();
    let is_new = |left: &LeftOut| {
        let real = path_of(left.path.as_ref()).canonicalize();
        !real.is_ok_and(|real| known.contains(&&path_bytes(&real)))
    };
    let mut left_out = if is_used { programs::of_path(of_libraries) } else { Vec::new() };
    left_out.retain(is_new);
    findings.extend(programs::findings(&left_out, "in PATH", of_libraries));
    let alone = Alone::count();
    let used_path = index.as_ref().map(|index| path_of(index.path.as_ref()));
    let cache = places::cache();
    let blocked = cache.iter().chain(&used_path).filter_map(|path| places::check_exec(path).err());
    let remedy = "XDG_CACHE_HOME, or becalm index -o, names another file system";
    findings
        .extend(blocked.map(|why| Finding::new(FindingKind::Unusable, why.to_string(), remedy)));
    if index.is_none() && alone.is_empty() {
        let remedy =
            "becalm run -- PROGRAM makes one of a program, becalm index STORE... one of stores";
        findings.push(Finding::new(FindingKind::NoIndex, "there is no index", remedy));
    }
    // A damaged index cannot be used at all: its own finding has the remedy.
    if let Some(index) = index.as_ref().filter(|index| !is_used && index.usable) {
        let path = shown(index.path.as_ref());
        let option = named.map_or(String::new(), |_| format!(" --index {path}"));
        let what = "LD_AUDIT does not name the index: programs started here do not use it";
        let remedy = format!("eval \"$(becalm env{option})\"");
        findings.push(Finding::new(FindingKind::NotCalmed, what, remedy));
    }
    let by_folder = is_used && used.is_some_and(|module| module.element != module.path);
    let is_blocked = used_path.as_deref().is_some_and(places::is_noexec);
    let fault = used_path.and_then(|path| fault_of_folder(&path, by_folder));
    let is_astray = fault.as_ref().is_some_and(|(_, is_astray)| *is_astray);
    findings.extend(fault.map(|(finding, _)| finding));
    findings.sort_by_key(|finding| finding.kind);
    let is_usable = index.as_ref().is_some_and(|index| index.usable);
    let takes_index = loader.as_ref().is_none_or(|loader| loader.takes_index);
    let calmed = is_used && is_usable && !is_off && takes_index && !is_astray && !is_blocked;
    let records = records();
    Report {
        calmed,
        modules,
        switches,
        static_tls,
        index,
        left_out,
        loader,
        program: None,
        alone,
        kept: Vec::new(),
        records,
        trees: trees::state::state(),
        findings,
    }
}
