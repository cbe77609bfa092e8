//! Prediction of the misses that each strategy would leave of one program's start: the plans of
//! `becalm fix`, checked as for a dry run, and an index of the program's own start. Nothing is
//! written or run. Only files that the start loads are looked at, and no package is walked: an assumed
//! store may be a whole file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::facts::{Environment, Readers};
use becalm_core::loader::load::Role;
use becalm_core::path;
use becalm_core::search::Stores;
use becalm_core::strategy::Strategy;
use becalm_host::index_store::IndexOptions;
use bstr::{BStr, BString, ByteSlice};
use serde::Serialize;

use crate::assume::{self, Assumptions};
use crate::fix::options::Options;
use crate::fix::{audit, foresee};
use crate::follow::{Followed, follow};
use crate::path::dirs_of;
use crate::targets::Target;

/// The strategies for one program, and the misses that each would leave.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Misses in this environment, without a strategy. Strategies are planned for an empty
    /// environment, because their files are for all.
    pub before: u64,
    /// A store that is assumed to be named, because the program searches below it and below no
    /// store of `--store`.
    #[serde(serialize_with = "crate::json::lossy_option")]
    pub assumed_store: Option<BString>,
    /// One for each strategy and scope.
    pub options: Vec<Choice>,
}

/// One strategy on one set of files.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The strategy.
    pub strategy: String,
    /// The files that change.
    pub scope: Scope,
    /// True if the strategy needs a loader that reads notes or package caches, and this program's
    /// loader does not.
    pub needs_reader: bool,
    /// Misses that are left; none if the strategy cannot be applied.
    pub misses: Option<u64>,
    /// The reason why it cannot be applied.
    pub refused: Option<String>,
}

/// The files that a strategy changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// None: new files are written beside them.
    Nothing,
    /// The program alone.
    Program,
    /// The program and the libraries it loads.
    Closure,
}

/// Strategies of `becalm fix`, with and without `--leaf`.
const OF_FIX: [(Strategy, bool); 6] = [
    (Strategy::Audit, false),
    (Strategy::Farm, false),
    (Strategy::Farm, true),
    (Strategy::Absolute, false),
    (Strategy::Note, false),
    (Strategy::Ldcache, false),
];

impl Advice {
    /// Predicts each strategy for the program of a closure. `None` if there is nothing to remove:
    /// no program, or no misses.
    #[must_use]
    pub fn of(
        assume: &assume::Options,
        assumed: &Assumptions,
        target: &Target,
        closure: &Closure,
    ) -> Option<Self> {
        if !matches!(closure.subject.kind, SubjectKind::Program { .. }) {
            return None;
        }
        let reads = closure.facts.as_ref().map(|facts| facts.reads.clone())?;
        let in_empty =
            Environment { reads: assumed.environment.reads.clone(), ..Environment::default() };
        let (alone, _) = start(assumed, target, &in_empty)?;
        let environment = Environment { audit: None, ..assumed.environment.clone() };
        let (here, secure) = start(assumed, target, &environment)?;
        let before = SearchCost::of(&here.load).misses();
        if before == 0 {
            return None;
        }
        let assumed_store = store_of(&assumed.stores, &alone);
        // The list of `--library-path` is part of this environment, not of the plan.
        let mut assume = assume::Options { library_path: None, ..assume.clone() };
        if let Some(store) = &assumed_store {
            assume.store.0 = store.to_os_str_lossy().into_owned();
        }
        // The plan uses the assumed stores and no detected reader.
        let named = assumed_store.as_ref().map(|_| Assumptions::new(&assume)).transpose().ok()?;
        let assumed = named.as_ref().unwrap_or(assumed);
        let environment = Environment { secure, ..environment };
        let (closure, here) = (&alone, &here);
        let forecast = Forecast { assume, assumed, target, closure, here, environment, reads };
        Some(Self { before, assumed_store, options: forecast.options() })
    }

    /// Returns the option that leaves fewest misses with the program's own loader, and fewer than
    /// before. Of two that leave the same, the first one, because it changes less.
    #[must_use]
    pub fn best(&self, scope: Scope) -> Option<(&Choice, u64)> {
        let in_scope = self.options.iter().filter(|option| option.scope == scope);
        let usable = in_scope.filter(|option| !option.needs_reader);
        let left = usable.filter_map(|option| Some((option, option.misses?)));
        left.filter(|(_, left)| *left < self.before).min_by_key(|(_, left)| *left)
    }
}

/// Returns the start in an environment, and whether it is in secure-execution mode.
fn start(
    assumed: &Assumptions,
    target: &Target,
    environment: &Environment,
) -> Option<(Closure, bool)> {
    let session = assumed.fs.session();
    match follow(assumed, &session, target, environment) {
        Ok(Followed::Elf(closure, secure)) => Some((*closure, secure)),
        _ => None,
    }
}

/// The planned strategies of one program.
struct Forecast<'a> {
    assume: assume::Options,
    assumed: &'a Assumptions,
    target: &'a Target,
    /// The start in an empty environment.
    closure: &'a Closure,
    /// The start in this environment.
    here: &'a Closure,
    environment: Environment,
    reads: Readers,
}

impl Forecast<'_> {
    fn options(&self) -> Vec<Choice> {
        let mut options = vec![self.index()];
        let alone = std::slice::from_ref(self.target);
        let all = self.targets();
        for (scope, files) in [(Scope::Program, alone), (Scope::Closure, &all)] {
            for (with, leaf) in OF_FIX {
                // The audit entry belongs to the program; a farm of the graph changes all its
                // objects.
                let is_for = match with {
                    Strategy::Audit => scope == Scope::Program,
                    Strategy::Farm if !leaf => scope == Scope::Closure,
                    _ => true,
                };
                if is_for {
                    options.push(self.of_fix((with, leaf), scope, files));
                }
            }
        }
        options
    }

    /// Predicts the index that `becalm run` makes, with the directories of `LD_LIBRARY_PATH`.
    fn index(&self) -> Choice {
        let list = self.environment.library_path.iter();
        let list: Vec<&OsStr> = list.map(|list| OsStr::from_bytes(list)).collect();
        let (misses, refused) = match self.left_by_index(&dirs_of(&list)) {
            Ok(misses) => (Some(misses), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (strategy, scope) = (Strategy::Index.to_string(), Scope::Nothing);
        Choice { strategy, scope, needs_reader: false, misses, refused }
    }

    fn left_by_index(&self, dirs: &[PathBuf]) -> Result<u64, audit::AuditError> {
        let prefixes = &self.assume.store.paths();
        let facts = Some(&self.assumed.choice);
        let options = IndexOptions { prefixes, dirs, facts, ..IndexOptions::default() };
        let start = (self.here, &self.environment);
        audit::left_by_index(&self.assumed.fs, start, options).map(|storm| storm.misses())
    }

    fn of_fix(&self, (with, leaf): (Strategy, bool), scope: Scope, files: &[Target]) -> Choice {
        let options = Options::of(with, leaf, self.assume.clone());
        // A farm of the graph is planned for the program and changes its libraries as well.
        let files = match with {
            Strategy::Farm if !leaf => std::slice::from_ref(self.target),
            _ => files,
        };
        let foreseen = foresee::foresee(&options, self.assumed, files, &self.environment);
        let (starts, problems) = foreseen.unwrap_or_default();
        let start = starts.into_iter().find(|start| start.path == self.target.shown);
        let misses = start.and_then(|start| start.after).map(|storm| storm.misses());
        // Its index has no directory of an environment.
        let misses = match with {
            Strategy::Audit => misses.and_then(|_| self.left_by_index(&[]).ok()),
            _ => misses,
        };
        let problem = problems.into_iter().find(|problem| problem.path == self.target.shown);
        let refused = problem.map(|problem| problem.reason);
        let needs_reader = match with {
            Strategy::Note => !self.reads.note,
            Strategy::Ldcache => self.reads.package_caches.is_empty(),
            _ => false,
        };
        let misses = misses.filter(|_| refused.is_none());
        let unsaid = || "becalm fix --dry-run refuses the plan and says why".to_owned();
        let refused = if misses.is_none() { refused.or_else(|| Some(unsaid())) } else { None };
        let strategy = format!("{with}{}", if leaf { " --leaf" } else { "" });
        Choice { strategy, scope, needs_reader, misses, refused }
    }

    /// Returns the program and its libraries, each once.
    fn targets(&self) -> Vec<Target> {
        let mut targets = vec![self.target.clone()];
        let objects = self.closure.load.objects.iter();
        for object in objects.filter(|object| object.role == Role::Library && object.namespace == 0)
        {
            let Ok(host) = self.assumed.fs.host_path(object.path.as_ref()) else { continue };
            let (shown, inside) = (object.path.clone(), object.path.clone());
            targets.push(Target { shown, inside, host, named: true });
        }
        targets
    }
}

/// Returns the store of a program's packages if no directory that it searches in vain is below a
/// named store: the deepest directory that has each of them in a directory of its own
/// (`PACKAGE/lib`).
pub(crate) fn store_of(named: &Stores, closure: &Closure) -> Option<BString> {
    let load = &closure.load;
    let missed = load.probes.iter().filter(|probe| probe.outcome.is_failed_call());
    let mut dirs: Vec<&BStr> = missed.map(|probe| probe.dir).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let facts = closure.facts.as_ref()?;
    let is_system =
        |dir: &BStr| facts.system_dirs.iter().any(|s| s.trim_end_with(|c| c == '/') == dir);
    let is_own = |dir: &&BStr| dir.starts_with(b"/") && !is_system(dir);
    dirs.retain(is_own);
    let first = dirs.first()?;
    if dirs.len() < 2 || dirs.iter().any(|dir| named.contain(dir) || has_dots(dir)) {
        return None;
    }
    let is_below = |dir: &BStr, store: &[u8]| {
        let below = dir.strip_prefix(store).and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|below| below.contains(&b'/'))
    };
    let mut store: &[u8] = path::parent(first);
    while !store.is_empty() && !dirs.iter().all(|dir| is_below(dir, store)) {
        store = path::parent(store);
    }
    let package = |dir: &BStr| dir[store.len()..].split_str("/").nth(1).map(ToOwned::to_owned);
    // A single package is a bundle: its own directories are not a store.
    let is_one = dirs.iter().all(|dir| package(dir) == package(first));
    let holds = |dir: &BString| dir.starts_with(store) && dir.get(store.len()) == Some(&b'/');
    // Whoever owns a home changes it.
    let is_home =
        matches!(store, b"/home" | b"/root") || path::parent(store) == b"/home".as_slice();
    let is_store = !store.is_empty() && !is_one && !is_home && !facts.system_dirs.iter().any(holds);
    is_store.then(|| store.into())
}

fn has_dots(dir: &BStr) -> bool {
    dir.split_str("/").any(|name| name == b".." || name == b".")
}

impl Choice {
    /// Returns the shell command that applies it, for a program and its stores.
    #[must_use]
    pub fn command(&self, program: &str, stores: &[String]) -> String {
        let named: String = stores.iter().map(|store| format!("--store {store} ")).collect();
        match self.scope {
            Scope::Nothing => format!("becalm run {named}-- {program}"),
            Scope::Closure if self.strategy != "farm" => {
                let files = match stores {
                    [] => format!("{program} LIBRARIES…"),
                    stores => stores.join(" "),
                };
                format!("becalm fix --with {} {named}{files}", self.strategy)
            }
            Scope::Program | Scope::Closure => {
                let closure = if self.strategy == "farm" { "--closure " } else { "" };
                format!("becalm fix --with {} {closure}{named}{program}", self.strategy)
            }
        }
    }
}

impl Scope {
    /// Names the files that change, for a reader.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "no file",
            Self::Program => "the program",
            Self::Closure => "the program and its libraries",
        }
    }
}
