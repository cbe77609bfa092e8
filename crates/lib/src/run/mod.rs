//! Start of a program with an index (`becalm run`).
//!
//! [`program`] finds out how a command is started. [`kept`] finds the program's index in the cache
//! with a few system calls: nothing is predicted, no loader is run and no index is read completely.
//! If an index has to be made first, [`making`] starts another process that makes it.

pub mod error;
pub mod kept;
pub mod making;
pub mod program;

use std::env;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use becalm_core::elf::machine_name;
use becalm_core::index::{Start as Known, tls};
use becalm_core::search::Stores;

use crate::assume::StorePrefixes;
use crate::index::error::damaged;
use crate::index::file::{self, Opened};
use crate::index::variables::{NO_BIND, PATHS, Settings, Variable, and_only, and_static_tls};
use crate::index::{places, platforms};
use crate::path::path_bytes;
use crate::run::kept::Place;
use crate::run::making::Request;
use crate::run::program::{Found, Program, Start};

/// The choice of the index of a start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The index to use; none for the default one if the program is in one of its stores, else for
    /// one that is kept for the program.
    pub index: Option<PathBuf>,
    /// True if a missing index is made first, and a start without one fails.
    pub strict: bool,
    /// True if a missing index is made first.
    pub wait: bool,
    /// The index that a pack has for the program, if none is kept.
    pub packed: Option<PathBuf>,
    /// The store prefixes, for an index that is made.
    pub store: StorePrefixes,
    /// True if file lookups are answered from the paths of the index.
    pub paths: bool,
    /// True if the index is for this program, and not for those that it starts.
    pub only: bool,
    /// Is there if the program is told results of lookups ([`crate::trees`]): it is bound, however few
    /// relocations it has, and so are these programs, which earlier starts of it started.
    pub told: Option<Vec<PathBuf>>,
}

/// The index that a program is started with.
#[derive(Debug)]
pub enum Launch {
    /// An index.
    Indexed(Box<Indexed>),
    /// No index: there is nothing to answer.
    Plain,
    /// No index: another process makes it.
    BeingMade,
    /// No index: the program starts in secure-execution mode.
    Secure,
}

/// An index for a start.
#[derive(Debug)]
pub struct Indexed {
    /// The index.
    pub index: Opened,
    /// The real path of the program.
    pub real: PathBuf,
    /// The bytes of static TLS that libraries of the program get.
    pub static_tls: u64,
    /// True if file lookups are answered from its paths.
    pub has_paths: bool,
    /// The time when it was last compared with the files, or now for the default index; `None` for a named
    /// index, or one that should be compared again.
    pub compared: Option<SystemTime>,
}

impl Indexed {
    /// Returns the variables to set, including their contents in this process's environment.
    /// `no_bind` leaves symbol bindings, and file lookups, to the loader; `switches` are those of a
    /// start that is learned ([`crate::ahead::begin`]), is told results or has ready pages. With `only`, programs that
    /// the program starts get this process's environment.
    #[must_use]
    pub fn variables(&self, no_bind: bool, switches: &[String], only: bool) -> Vec<Variable> {
        let own = no_bind.then_some(NO_BIND).or(self.has_paths.then_some(PATHS));
        let switches = own.into_iter().chain(switches.iter().map(String::as_str));
        let switches: Vec<&str> = switches.collect();
        let settings = Settings {
            module: platforms::audit_path(&self.index.path, self.index.index.target()),
            static_tls: if only { self.static_tls } else { self.static_tls.max(tls::SESSION) },
            switch: (!switches.is_empty()).then(|| switches.join(",")),
        };
        let variables = settings.added(|name| env::var_os(name));
        match only {
            true => and_only(variables, |name| env::var_os(name)),
            false => and_static_tls(variables, self.static_tls),
        }
    }
}

/// Finds the index with which a program is started.
///
/// # Errors
/// Returns an error if the program cannot be read, or no index can answer for it. The program may
/// be started all the same.
pub fn prepare(options: &Options, found: Found) -> Result<Launch> {
    let path = found.path.clone();
    let program = Program::look(found)?;
    let named = options.index.as_deref().filter(|_| !options.only);
    let (indexed, otherwise) = match &program.start {
        // The static program has no lookups; programs that it starts may have.
        Start::Static => {
            let of_session = |path| -> Result<Indexed> {
                let index = named_index(path)?;
                let has_paths = options.paths && index.index.has_paths();
                let (real, static_tls) = (program.real.clone(), making::need_of_session());
                Ok(Indexed { index, real, static_tls, has_paths, compared: None })
            };
            (named.map(of_session).transpose()?, Launch::Plain)
        }
        Start::Secure if options.strict => bail!(
            "{}: starts in secure-execution mode: its loader ignores LD_AUDIT",
            path.display()
        ),
        Start::Secure => return Ok(Launch::Secure),
        Start::Musl => return Err(error::of_musl(&path)),
        Start::Loader(_) => (of_program(options, &program)?, Launch::BeingMade),
    };
    Ok(indexed.map_or(otherwise, |indexed| Launch::Indexed(Box::new(indexed))))
}

/// Returns the index for a program: the named one, the default one if the program is in one of its
/// stores, else one that is kept for it; `None` if that is not made yet.
fn of_program(options: &Options, program: &Program) -> Result<Option<Indexed>> {
    if options.paths {
        return with_paths(options, program);
    }
    let (known, index, compared) = match &options.index {
        Some(path) => {
            let index = named_index(path)?;
            (known_to(&index, program)?, index, None)
        }
        None => match default_for(program)? {
            Some((index, known)) => (known, index, Some(SystemTime::now())),
            None => return kept_for(options, program, None),
        },
    };
    let indexed = with_need(index, program, need(options, program, known))?;
    Ok(Some(Indexed { compared, ..indexed }))
}

/// Returns the needs of a program from those that a named or default index knows. A library that is
/// preloaded has static TLS too, and the index may have been made without it.
///
/// A program that the index does not have may need more static TLS than others. The index that is kept for
/// it has its needs. Without such an index this start is predicted.
fn need(options: &Options, program: &Program, known: Option<Known>) -> Known {
    if let Some(known) = known.filter(|_| !making::is_preloaded()) {
        return known;
    }
    let place = Place::of(options, program, None).ok();
    let kept = place.and_then(|place| match place.look().ok()? {
        Some((index, _)) => known_to(&index, program).ok()?,
        None => {
            // The index is optional, so a failure must not stop the program.
            let _ = making::elsewhere(&place, &Request::of(options, program, None));
            None
        }
    });
    known.unwrap_or_default().max(kept.unwrap_or_else(|| making::need(program)))
}

/// Returns the named index with paths, else the default one, if it binds the program; else one with
/// the same paths that is made for the program.
fn with_paths(options: &Options, program: &Program) -> Result<Option<Indexed>> {
    let index = match &options.index {
        Some(path) => named_index(path)?,
        None => default_index()?.context(
            "no index with paths: becalm index --paths STORE... makes one, for packages that never \
             change; other trees need none",
        )?,
    };
    if !index.index.has_paths() {
        bail!(
            "{}: the index has no paths; becalm index --paths STORE... makes one with those of packages",
            index.path.display()
        );
    }
    let real = path_bytes(&program.real);
    let binds = index.index.binds(real.as_ref()).map_err(damaged(&index.path))?;
    let indexed = match known_to(&index, program)?.filter(|_| binds) {
        Some(known) => with_need(index, program, need(options, program, Some(known))).map(Some),
        None => kept_for(options, program, Some(&index)),
    };
    Ok(indexed?.map(|indexed| Indexed { has_paths: true, ..indexed }))
}

/// Returns the start of a program by an index that was made for it.
pub(crate) fn by_own(index: Opened, program: &Program) -> Result<Indexed> {
    let known = known_to(&index, program)?.unwrap_or_default();
    with_need(index, program, known)
}

/// Adds the needs of a program's start to the index.
fn with_need(index: Opened, program: &Program, known: Known) -> Result<Indexed> {
    if known.no_start {
        bail!(
            "{}: a library of it has thread-local storage with an alignment that no loader under an \
             audit module can",
            program.real.display()
        );
    }
    let static_tls = tls::PROGRAM.max(known.static_tls.into());
    let real = program.real.clone();
    Ok(Indexed { index, real, static_tls, has_paths: false, compared: None })
}

/// Returns the needs that an index has on record for a program.
///
/// # Errors
/// Returns an error if the machine is not the program's, or if the index is damaged.
fn known_to(index: &Opened, program: &Program) -> Result<Option<Known>> {
    let of_index = index.index.target();
    if let Start::Loader(target) = program.start
        && of_index != target
    {
        let [machine, of_program] = [of_index, target].map(|it| machine_name(it.machine));
        let (index, program) = (index.path.display(), program.real.display());
        bail!("{index}: an index for {machine}, and {program} is for {of_program}");
    }
    let known = index.index.program(path_bytes(&program.real).as_ref());
    Ok(known.map_err(damaged(&index.path))?)
}

/// Opens a named index, which may have been made elsewhere.
fn named_index(path: &Path) -> Result<Opened> {
    let index = file::open(path)?;
    places::check_exec(path)?;
    Ok(index)
}

/// Returns the default index, if the program is in one of its stores, and its record of the
/// program.
fn default_for(program: &Program) -> Result<Option<(Opened, Option<Known>)>> {
    let is_for_it = |index: &Opened| program.start == Start::Loader(index.index.target());
    let Some(index) = default_index()?.filter(is_for_it) else { return Ok(None) };
    let known = known_to(&index, program)?;
    if known.is_none() {
        let roots = index.index.roots().map_err(damaged(&index.path))?;
        if !Stores::of(&roots).contain(&path_bytes(&program.real)) {
            return Ok(None);
        }
    }
    Ok(Some((index, known)))
}

/// Returns the user's index, else the system's.
fn default_index() -> Result<Option<Opened>> {
    places::of_sessions().find_map(|path| file::open_if_there(&path).transpose()).transpose()
}

/// Returns the index that is kept for a program. If there is none, or it was not compared with the
/// files recently, another process is started to do that.
fn kept_for(
    options: &Options,
    program: &Program,
    paths: Option<&Opened>,
) -> Result<Option<Indexed>> {
    let place = Place::of(options, program, paths);
    let request = || Request::of(options, program, paths);
    // Without a home directory the index of a pack can still be used.
    let kept = place.as_ref().map_or(Ok(None), Place::look);
    // A start that does not look at the tree needs that of the pack.
    let is_first = options.wait || matches!(kept, Ok(None));
    if let (true, Some(packed), None) = (is_first, &options.packed, paths)
        && let Ok(index) = file::open(packed)
        && let Ok(Some(known)) = known_to(&index, program)
    {
        return with_need(index, program, known).map(Some);
    }
    let place = place?;
    match kept? {
        Some((index, is_stale)) => {
            if is_stale {
                // The existing index is good enough for this start.
                let _ = making::elsewhere(&place, &request());
            }
            let compared = index.modified.filter(|_| !is_stale);
            Ok(Some(Indexed { compared, ..by_own(index, program)? }))
        }
        None if options.strict || options.wait => {
            if options.wait {
                making::settle(program)?;
            }
            making::here(&place, &request())?;
            by_own(file::open(&place.path)?, program).map(Some)
        }
        None => {
            making::elsewhere(&place, &request())?;
            let others = options.told.iter().flatten().count();
            let without = || Options { told: Some(Vec::new()), ..options.clone() };
            // The index that has been made without the programs that it starts.
            let place = (others > 0).then(|| Place::of(&without(), program, None)).transpose()?;
            match place.and_then(|it| it.look().ok()) {
                Some(Some((index, _))) => by_own(index, program).map(Some),
                _ => Ok(None),
            }
        }
    }
}
