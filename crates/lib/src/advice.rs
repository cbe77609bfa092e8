//! Prediction of the misses and the time that each strategy would leave of one program's start: the
//! plans of `becalm fix`, checked as for a dry run, and an index of the program's own start. They are
//! ranked by time. Nothing is written or run. Only files that the start loads are looked at, and no package is walked: an assumed
//! store may be a whole file system.

use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::facts::{Environment, Readers};
use becalm_core::loader::load::Role;
use becalm_core::path;
use becalm_core::search::Stores;
use becalm_core::strategy::row::Unit;
use becalm_core::strategy::{Finding, Strategy};
use becalm_host::index_store::IndexOptions;
use bstr::{BStr, BString, ByteSlice};
use serde::Serialize;

use crate::assume::{self, Assumptions, StorePrefixes};
use crate::escape::shown;
use crate::estimate::{Estimate, is_gain};
use crate::fix::options::{Options, of_files};
use crate::fix::{audit, foresee};
use crate::follow::follow;
use crate::packages;
use crate::path::{dirs_of, path_bytes};
use crate::targets::Target;
use crate::words::{counted, words_of_chain};

/// The strategies for one program, and the misses and the time that each would leave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Advice {
    /// Misses in this environment, without a strategy. Strategies are planned for an empty
    /// environment, because their files are for all.
    pub before: u64,
    /// The estimated time of the loader in nanoseconds, without a strategy; null if there is no
    /// estimate.
    pub before_ns: Option<u64>,
    /// The package manager that owns the program, so that `becalm fix` is not proposed for it: dpkg,
    /// rpm, Nix or Guix.
    pub owner: Option<&'static str>,
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
    /// The estimated time of the loader in nanoseconds; null if it cannot be applied, or there is no
    /// estimate.
    pub loader_ns: Option<u64>,
    /// The shell command that applies it.
    pub command: String,
    /// The reason why it cannot be applied.
    pub refused: Option<String>,
}

/// The files that a strategy changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// None: new files are written beside them.
    Nothing,
    /// The program alone.
    Program,
    /// The program and the libraries it loads.
    Closure,
}

/// A strategy of `becalm fix`, and whether it is planned with `--leaf` although it need not be.
type OfFix = (Strategy, bool);

/// Returns the strategies of `becalm fix`, without and with `--leaf`.
fn of_fix() -> impl Iterator<Item = OfFix> {
    let can_be_leaf = |with: Strategy| matches!(with.row().unit, Unit::ObjectOrClosure(..));
    of_files().flat_map(move |with| {
        iter::once((with, false)).chain(can_be_leaf(with).then_some((with, true)))
    })
}

/// Returns true if a strategy can be applied to the files of a scope.
fn is_for((with, leaf): OfFix, scope: Scope) -> bool {
    match with.row().unit {
        // The audit entry belongs to the program.
        Unit::Program => scope == Scope::Program,
        // A farm of the graph changes all objects of the program.
        Unit::ObjectOrClosure(..) if !leaf => scope == Scope::Closure,
        _ => true,
    }
}

impl Advice {
    /// Predicts each strategy for the program of a closure. `None` if there is nothing to gain: no
    /// program, or neither misses nor, by the estimate, time that an index saves.
    #[must_use]
    pub fn of(
        assume: &assume::Options,
        assumed: &Assumptions,
        target: &Target,
        closure: &Closure,
        estimate: Option<&Estimate>,
    ) -> Option<Self> {
        if closure.subject.kind != SubjectKind::Program {
            return None;
        }
        let reads = closure.facts.as_ref().map(|facts| facts.reads.clone())?;
        let in_empty =
            Environment { reads: assumed.environment.reads.clone(), ..Environment::default() };
        let (alone, _) = start(assumed, target, &in_empty)?;
        let environment = Environment { audit: None, ..assumed.environment.clone() };
        let (here, secure) = start(assumed, target, &environment)?;
        let before = SearchCost::of(&here.load).misses();
        let is_saved = |it: &Estimate| it.indexed_ns.is_some_and(|ns| is_gain(ns, it.loader_ns));
        if before == 0 && !estimate.is_some_and(is_saved) {
            return None;
        }
        let assumed_store = store_of(&assumed.stores, &alone);
        let stores = assumed_store.iter().cloned().chain(named_stores(assume));
        let stores = stores.map(|store| quoted(&store)).collect();
        // The list of `--library-path` is part of this environment, not of the plan.
        let mut assume = assume::Options { library_path: None, ..assume.clone() };
        if let Some(store) = &assumed_store {
            assume.store.store = vec![store.to_os_str_lossy().into_owned()];
        }
        // The plan uses the assumed stores and no detected reader.
        let named = assumed_store.as_ref().map(|_| Assumptions::new(&assume)).transpose().ok()?;
        let assumed = named.as_ref().unwrap_or(assumed);
        let environment = Environment { secure, ..environment };
        let (closure, here) = (&alone, &here);
        let forecast = Forecast {
            assume,
            assumed,
            target,
            closure,
            here,
            environment,
            reads,
            before,
            estimate,
            stores,
        };
        Some(Self {
            before,
            before_ns: estimate.map(|estimate| estimate.loader_ns),
            owner: packages::owner_of(&target.host),
            options: forecast.options(),
            assumed_store,
        })
    }

    /// Takes measured times of the loader instead of estimates: plain, and with an index. Those of other strategies
    /// keep their share.
    pub(crate) fn set_measured(&mut self, plain_ns: u64, indexed_ns: u64) {
        let Some(before) = self.before_ns.replace(plain_ns) else { return };
        let scaled = |ns: u64| (ns as f64 * plain_ns as f64 / before.max(1) as f64) as u64;
        let indexes = Strategy::ALL.iter().filter(|it| it.row().unit.is_index());
        let indexes: Vec<String> = indexes.map(ToString::to_string).collect();
        for choice in &mut self.options {
            let is_index = indexes.contains(&choice.strategy);
            choice.loader_ns =
                choice.loader_ns.map(|ns| if is_index { indexed_ns } else { scaled(ns) });
        }
    }

    /// Returns the option that leaves least time, or misses if there are no times, with the program's
    /// own loader. Of two that leave the same, the first one, because it changes less.
    #[must_use]
    pub fn best(&self, scope: Scope) -> Option<&Choice> {
        let in_scope = self.options.iter().filter(|option| option.scope == scope);
        in_scope.filter(|option| self.is_worth(option)).min_by_key(|option| option.cost())
    }

    /// True if a strategy can be proposed: it gains a part of the loader's time with the program's own
    /// loader, and not less than one that changes less.
    #[must_use]
    pub fn is_worth(&self, choice: &Choice) -> bool {
        let Some(cost) = choice.cost().filter(|_| !choice.needs_reader) else { return false };
        let gains = match (choice.loader_ns, self.before_ns) {
            (Some(ns), Some(before)) => is_gain(ns, before),
            _ => cost < self.before,
        };
        let is_allowed = choice.scope == Scope::Nothing || self.owner.is_none();
        let changes_less = self.options.iter().filter(|other| other.scope < choice.scope);
        gains && is_allowed && changes_less.filter_map(Choice::cost).all(|other| cost <= other)
    }

    /// Describes the strategies that are not proposed, in one line each: those that gain nothing, and
    /// those of `becalm fix` if a package manager owns the program.
    #[must_use]
    pub fn not_proposed(&self) -> Vec<String> {
        let usable = self.options.iter().filter(|it| it.cost().is_some() && !it.needs_reader);
        let (of_fix, others): (Vec<_>, Vec<_>) = usable
            .filter(|it| !self.is_worth(it))
            .partition(|it| it.scope != Scope::Nothing && self.owner.is_some());
        let mut lines = Vec::new();
        if let (Some(owner), false) = (self.owner, of_fix.is_empty()) {
            let why = match owner {
                "Nix" | "Guix" => "never changes a file of its store",
                _ => "would write it anew with an upgrade",
            };
            lines.push(format!("becalm fix is not proposed: {owner} owns the program, and {why}"));
        }
        if let (false, number) = (others.is_empty(), others.len() as u64) {
            let gain = if number == 1 { "gains" } else { "gain" };
            let strategies = counted(number, "strategy", "strategies");
            lines.push(format!("{strategies} {gain} nothing here; --json names all"));
        }
        lines
    }
}

/// Returns the start in an environment, and whether it is in secure-execution mode.
fn start(
    assumed: &Assumptions,
    target: &Target,
    environment: &Environment,
) -> Option<(Closure, bool)> {
    let session = assumed.fs.session();
    follow(assumed, &session, target, environment).ok()?.elf()
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
    /// Misses without a strategy.
    before: u64,
    estimate: Option<&'a Estimate>,
    /// The stores, as the shell commands name them.
    stores: Vec<String>,
}

impl Forecast<'_> {
    fn options(&self) -> Vec<Choice> {
        let mut options = vec![self.index()];
        let alone = std::slice::from_ref(self.target);
        let all = self.targets();
        for (scope, files) in [(Scope::Program, alone), (Scope::Closure, &all)] {
            // The others only end misses.
            let can_gain = |with: Strategy| self.before > 0 || with.row().unit.is_index();
            let all = of_fix().filter(|it| can_gain(it.0) && is_for(*it, scope));
            options.extend(all.map(|it| self.of_fix(it, scope, files)));
        }
        options
    }

    /// Predicts the index that `becalm run` makes, with the directories of `LD_LIBRARY_PATH`.
    fn index(&self) -> Choice {
        let list = self.environment.library_path.iter();
        let list: Vec<&OsStr> = list.map(|list| OsStr::from_bytes(list)).collect();
        let left = self.left_by_index(&dirs_of(&list)).map_err(|error| error.to_string());
        self.choice((Strategy::Index, false), Scope::Nothing, false, left)
    }

    /// Returns a strategy with the misses that it leaves, or the reason why it cannot be applied.
    fn choice(
        &self,
        (with, leaf): OfFix,
        scope: Scope,
        needs_reader: bool,
        left: Result<u64, String>,
    ) -> Choice {
        let strategy = format!("{with}{}", if leaf { " --leaf" } else { "" });
        let misses = left.as_ref().ok().copied();
        let loader_ns = self.estimate.zip(misses).and_then(|(estimate, left)| {
            let without_misses = match with.row().unit.is_index() {
                true => estimate.indexed_ns?,
                false => estimate.loader_ns - estimate.misses_ns,
            };
            Some(estimate.with_misses(without_misses, left, self.before))
        });
        let command = self.command(&strategy, scope);
        Choice { strategy, scope, needs_reader, misses, loader_ns, command, refused: left.err() }
    }

    fn left_by_index(&self, dirs: &[PathBuf]) -> anyhow::Result<u64> {
        let prefixes = &self.assume.store.paths();
        let facts = Some(&self.assumed.choice);
        let options = IndexOptions { prefixes, dirs, facts, ..IndexOptions::default() };
        let start = (self.here, &self.environment);
        audit::left_by_index(&self.assumed.fs, start, options).map(|storm| storm.misses())
    }

    fn of_fix(&self, (with, leaf): OfFix, scope: Scope, files: &[Target]) -> Choice {
        let options = Options::of(with, leaf, self.assume.clone());
        // A farm of the graph is planned for the program and changes its libraries as well.
        let files = if options.closure { std::slice::from_ref(self.target) } else { files };
        let foreseen = foresee::foresee(&options, self.assumed, files, &self.environment);
        let (starts, planned) = match foreseen {
            Ok(foreseen) => foreseen,
            Err(error) => {
                let why = words_of_chain(error.as_ref());
                return self.choice((with, leaf), scope, false, Err(why));
            }
        };
        let start = starts.into_iter().find(|start| start.path == self.target.shown);
        let mut misses = start.and_then(|start| start.after).map(|storm| storm.misses());
        if with.row().unit.is_index() {
            // Its index has no directory of an environment.
            misses = misses.and_then(|_| self.left_by_index(&[]).ok());
        }
        let mut problems = planned.problems.into_iter();
        let left = match problems.find(|problem| problem.path == self.target.shown) {
            Some(problem) => Err(problem.reason),
            None => misses.ok_or_else(|| self.why_refused(&planned.plan.findings)),
        };
        let needs_reader = with.row().format.is_some_and(|format| !self.reads.has(format));
        self.choice((with, leaf), scope, needs_reader, left)
    }

    /// Returns the most severe finding of a refused plan in words.
    fn why_refused(&self, findings: &[Finding]) -> String {
        let Some(worst) = findings.iter().max_by_key(|finding| finding.severity) else {
            return "the program would not load the same libraries".to_owned();
        };
        let mut words = worst.what.to_string();
        if let Some(needed) = &worst.needed {
            words = format!("{}: {words}", shown(needed.as_ref()));
        }
        if worst.path != self.closure.subject.path {
            words = format!("{}: {words}", shown(worst.path.as_ref()));
        }
        words
    }

    /// Returns the shell command that applies a strategy.
    fn command(&self, strategy: &str, scope: Scope) -> String {
        let (program, stores) = (quoted(&self.target.shown), &self.stores);
        let named: String = stores.iter().map(|store| format!("--store {store} ")).collect();
        match scope {
            Scope::Nothing => format!("becalm run {named}-- {program}"),
            Scope::Closure if strategy != "farm" => {
                let files = match stores.as_slice() {
                    [] => format!("{program} LIBRARIES…"),
                    stores => stores.join(" "),
                };
                format!("becalm fix --with {strategy} {named}{files}")
            }
            Scope::Program | Scope::Closure => {
                let closure = if strategy == "farm" { "--closure " } else { "" };
                format!("becalm fix --with {strategy} {closure}{named}{program}")
            }
        }
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
pub fn store_of(named: &Stores, closure: &Closure) -> Option<BString> {
    let load = &closure.load;
    let missed = load.probes.iter().filter(|probe| probe.outcome.is_failed_call());
    let mut dirs: Vec<&BStr> = missed.map(|probe| probe.dir()).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let facts = closure.facts.as_ref()?;
    let is_system =
        |dir: &BStr| facts.system_dirs.iter().any(|s| s.trim_end_with(|c| c == '/') == dir);
    let is_own = |dir: &&BStr| dir.starts_with(b"/") && !is_system(dir);
    dirs.retain(is_own);
    let first = dirs.first()?;
    let has_dots = |dir: &BStr| dir.split_str("/").any(|name| name == b".." || name == b".");
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

impl Choice {
    /// Returns the number by which strategies are compared: the time or, without one, the misses;
    /// none if the strategy cannot be applied.
    #[must_use]
    pub fn cost(&self) -> Option<u64> {
        self.misses.map(|misses| self.loader_ns.unwrap_or(misses))
    }
}

/// Returns the prefixes that the commands have to name: those of `--store`, unless they are the
/// default.
#[must_use]
pub fn named_stores(options: &assume::Options) -> Vec<BString> {
    if options.store.list() == StorePrefixes::default().list() {
        return Vec::new();
    }
    options.store.paths().iter().map(|path| path_bytes(path)).collect()
}

/// Quotes a path for a shell. Bytes that are not UTF-8 are shown escaped.
#[must_use]
pub fn quoted(path: &BString) -> String {
    match path.to_str() {
        Ok(path) => {
            shlex::try_quote(path).map_or_else(|_| path.to_owned(), |word| word.into_owned())
        }
        Err(_) => shown(path.as_ref()),
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
