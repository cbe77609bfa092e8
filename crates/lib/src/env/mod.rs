//! The variables that set up an index for a session, or remove it: `becalm env` prints them in the
//! language of a shell or another tool.
//!
//! The session's static TLS covers the programs of the index and those in `PATH` ([`needs`]).

pub mod error;
mod needs;

use std::env;
use std::path::{Path, PathBuf};

use bstr::BString;
use serde::Serialize;

use crate::env::error::EnvError;
use crate::env::needs::Needs;
use crate::index::error::IndexError;
use crate::index::file::{self, Opened};
use crate::index::variables::{self, AUDIT, NO_BIND, PATHS, Settings, Variable};
use crate::index::{places, platforms, trust};
use crate::json::{lossy, lossy_os};
use crate::progress::Progress;

/// The index of a session, and how it is used.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The index; none for the default one or, if it is removed, for that of this session.
    pub index: Option<PathBuf>,
    /// Bytes of static TLS for the libraries of every program; none for the need of the programs.
    pub static_tls: Option<u64>,
    /// True if symbol bindings are left to the loader.
    pub no_bind: bool,
    /// True if file lookups are answered from the index. `no_bind` precludes it.
    pub paths: bool,
    /// True if the variables are for later sessions of all users, not for this one.
    pub for_all: bool,
    /// True if the index is removed.
    pub undo: bool,
}

/// The variables of a session.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The index.
    #[serde(serialize_with = "lossy_os")]
    pub index: PathBuf,
    /// The contents of the variables.
    #[serde(flatten)]
    pub settings: Settings,
    /// The variables to change in the environment of this process.
    pub variables: Vec<Variable>,
    /// True if the index is of an older version, and is used nevertheless.
    pub is_old: bool,
    /// Programs that do not start in the session, or not as before; empty if the index is removed.
    pub unfit: Vec<Unfit>,
}

/// A program that does not start in the session, or not as before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfit {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub program: BString,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
}

/// The reason why a program does not fit a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// Its libraries need more static TLS than the session has.
    StaticTls {
        /// The bytes that they need.
        bytes: u64,
    },
    /// A library of it has thread-local storage with an alignment that no loader provides under an
    /// audit module.
    Alignment,
    /// It starts, but needs so much static TLS that no program of the session can create threads
    /// with small stacks.
    SmallStacks {
        /// The bytes that it needs.
        bytes: u64,
    },
}

/// Returns the variables that give a session an index, or take it away. With `undo`, the index may
/// be damaged or missing.
///
/// # Errors
/// Returns an error if there is no index, or it cannot be used as the options want it.
pub fn env(options: &Options, progress: &dyn Progress) -> Result<Report, EnvError> {
    let path = path_of(options)?;
    let opened = match file::open(&path) {
        Ok(index) => Some(index),
        // Undoing matters most if the index is gone or damaged.
        Err(_) if options.undo => None,
        Err(error) => return Err(error.into()),
    };
    let index = opened.as_ref();
    if let (true, false, Some(index)) = (options.for_all, options.undo, index) {
        let not_for_all = |why| EnvError::NotForAll { path: index.path.clone(), why };
        trust::check_for_all(&index.path).map_err(not_for_all)?;
    }
    let needs = match options.static_tls {
        Some(bytes) => Needs::given(bytes),
        None => Needs::of_path(options.for_all, progress),
    };
    let static_tls = needs.value(index)?;
    if let (true, false, Some(index)) = (options.paths, options.undo, index)
        && !index.index.has_paths()
    {
        return Err(EnvError::WithoutPaths(path));
    }
    let module = match index {
        Some(index) => platforms::audit_path(index),
        None => std::path::absolute(&path).map_err(IndexError::io(path))?.into(),
    };
    let switch = options.no_bind.then_some(NO_BIND).or(options.paths.then_some(PATHS));
    let settings = Settings { module, static_tls, switch };
    let now = |name: &str| env::var_os(name);
    let variables = if options.undo { settings.removed(now) } else { settings.added(now) };
    let used = index.filter(|_| !options.undo);
    Ok(Report {
        index: platforms::index_of(&settings.module),
        settings,
        variables,
        is_old: used.is_some_and(|index| !index.index.is_current()),
        unfit: used.map_or(Ok(Vec::new()), |index| unfit(index, &needs, static_tls))?,
    })
}

/// Returns the stores of an index, whose directories show that packages come or go.
///
/// # Errors
/// Returns an error if the file is no index.
pub fn stores(index: &Path) -> Result<Vec<BString>, EnvError> {
    let opened = file::open(index)?;
    Ok(opened.index.roots().map_err(IndexError::damaged(index))?)
}

/// Returns the path of the named index; otherwise that of this session if it is removed, or the
/// default one.
fn path_of(options: &Options) -> Result<PathBuf, EnvError> {
    let of_session = || options.undo.then(index_of_session).flatten();
    let path = options.index.clone().or_else(of_session).or_else(places::found);
    let own = places::own();
    let path = path.or_else(|| own.clone().filter(|_| options.undo));
    path.ok_or_else(|| own.map_or(EnvError::NoHome, EnvError::NoIndex))
}

/// Returns the index of this session: the first module of `LD_AUDIT` that is an index.
fn index_of_session() -> Option<PathBuf> {
    variables::indexes(env::var_os(AUDIT).as_deref()).find(|path| file::open(path).is_ok())
}

/// Returns the programs of the index, then those of `PATH`, that do not fit a session with this
/// static TLS. A module cannot help programs that need a larger alignment: the loader lays out
/// static TLS before it calls a module.
fn unfit(index: &Opened, needs: &Needs, session: u64) -> Result<Vec<Unfit>, EnvError> {
    let damaged = || IndexError::damaged(&index.path);
    let mut unfit = Vec::new();
    for (program, bytes) in index.index.static_tls_of_all().map_err(damaged())? {
        let bytes = u64::from(bytes);
        if bytes > session {
            unfit.push(Unfit { program, reason: Reason::StaticTls { bytes } });
        }
    }
    let mut programs = index.index.no_start().map_err(damaged())?;
    let more: Vec<BString> =
        needs.impossible().filter(|program| !programs.contains(program)).cloned().collect();
    programs.extend(more);
    unfit.extend(programs.into_iter().map(|program| Unfit { program, reason: Reason::Alignment }));
    if let Some((program, bytes)) = needs.beyond_small_stacks(session) {
        unfit.push(Unfit { program: program.clone(), reason: Reason::SmallStacks { bytes } });
    }
    Ok(unfit)
}
