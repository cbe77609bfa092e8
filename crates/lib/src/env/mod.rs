//! The variables that set up an index for a session, or remove it: `becalm env` prints them in the
//! language of a shell or another tool.
//!
//! Every session has the same static TLS, unless its preloaded libraries need more
//! ([`need_of_session`]): a larger one would keep programs from making threads with small stacks.
//! Programs that need more are named.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::index::Start;
use bstr::BString;
use serde::Serialize;

use crate::index::error::damaged;
use crate::index::file::{self, Opened};
use crate::index::trust::{self, Untrusted};
use crate::index::variables::{
    self, AHEAD, AUDIT, NO_BIND, PATHS, SWITCHES, Settings, TUNABLES, Variable,
};
use crate::index::{places, platforms};
use crate::json::{self, lossy, lossy_list, lossy_os};
use crate::path::path_bytes;
use crate::run::making::need_of_session;

/// The index of a session, and how it is used.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The index; none for the default one or, with `undo`, for all of this session.
    pub index: Option<PathBuf>,
    /// Bytes of static TLS for the libraries of every program; none for [`need_of_session`].
    pub static_tls: Option<u64>,
    /// True if symbol bindings are left to the loader.
    pub no_bind: bool,
    /// True if file lookups are answered from the index. `no_bind` precludes it.
    pub paths: bool,
    /// True if pages are read ahead of cold starts, by the running becalm.
    pub ahead: bool,
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
    /// The variables to change in the environment of becalm.
    pub variables: Vec<Variable>,
    /// Programs of the index that do not start in the session; empty if the index is removed.
    pub unfit: Vec<Unfit>,
    /// Files that do not exist and that `LD_AUDIT` no longer names (`--undo`).
    #[serde(serialize_with = "lossy_list")]
    pub gone: Vec<BString>,
}

json::schema!(Report, "becalm/env/1");

/// A program that does not start in the session.
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
}

/// Returns the variables that set up an index for a session, or remove indexes.
///
/// # Errors
/// Returns an error if there is no index, or it cannot be used as the options want it.
pub fn env(options: &Options) -> Result<Report> {
    let path = path_of(options)?;
    if options.undo {
        return undone(options, path);
    }
    let index = file::open(&path)?;
    if options.for_all {
        trust::check_for_all(&index.path).map_err(|why| not_for_all(&index.path, &why))?;
    }
    let static_tls = options.static_tls.unwrap_or_else(need_of_session);
    if options.paths && !index.index.has_paths() {
        bail!(
            "{}: the index has no paths; becalm index --paths STORE... makes one with those of \
             packages",
            path.display()
        );
    }
    let module = platforms::audit_path(&index.path, index.index.target());
    let settings = Settings { module, static_tls, switch: switch(options)? };
    if settings.module.to_str().is_none_or(|path| path.contains(char::is_control)) {
        return Err(no_text(format_args!("the path {}", index.path.display())));
    }
    Ok(Report {
        index: platforms::index_of(&settings.module),
        variables: as_text(settings.added(|name| env::var_os(name)))?,
        settings,
        unfit: unfit(&index, static_tls)?,
        gone: Vec::new(),
    })
}

/// Returns the variables without the named index, or without every index of the session. The static
/// TLS and the switches, which all indexes share, are removed with the last one. An index may be damaged or
/// missing: this is when it is removed. Without a named index, every element that is gone is
/// removed too, because nothing shows whether it was an index.
fn undone(options: &Options, path: PathBuf) -> Result<Report> {
    let index = std::path::absolute(&path).with_context(crate::path::at(&path))?;
    let list = env::var_os(AUDIT);
    let of_session = variables::indexes(list.as_deref(), Some(&index));
    let is_named = |at: &PathBuf| options.index.is_none() || is_same(at, &index);
    let (mut removed, left): (Vec<PathBuf>, Vec<PathBuf>) =
        of_session.into_iter().partition(is_named);
    let is_there = !removed.is_empty();
    if !is_there {
        removed.push(index.clone());
    }
    let mut gone = variables::gone(list.as_deref());
    gone.retain(|path| options.index.is_none() || removed.contains(path));
    let static_tls = options.static_tls.unwrap_or_else(need_of_session);
    let mut variables = Vec::new();
    if is_there || options.index.is_none() {
        let removed = [removed, gone.clone()].concat();
        variables.push(variables::without_indexes(list.as_deref(), &removed));
        if left.is_empty() {
            variables.push(variables::without_need(static_tls, env::var_os(TUNABLES).as_deref()));
            let switches = env::var_os(SWITCHES);
            variables.extend(switches.as_deref().map(variables::without_switches));
        }
    }
    let settings = Settings { module: index.clone().into(), static_tls, switch: switch(options)? };
    let gone = gone.iter().map(|path| path_bytes(path)).collect();
    let variables = as_text(variables)?;
    Ok(Report { index, settings, variables, unfit: Vec::new(), gone })
}

/// Returns the variables, unless the user's own part of one cannot be written.
fn as_text(variables: Vec<Variable>) -> Result<Vec<Variable>> {
    let is_text = |value: &OsString| value.to_str().is_some();
    match variables.iter().find(|it| it.value.as_ref().is_some_and(|value| !is_text(value))) {
        Some(other) => Err(no_text(format_args!("the value of {}", other.name))),
        None => Ok(variables),
    }
}

/// True if two paths name the same file, or are equal.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Returns the switches of the module.
fn switch(options: &Options) -> Result<Option<String>> {
    let lookups = options.no_bind.then_some(NO_BIND).or(options.paths.then_some(PATHS));
    let ahead = options.ahead.then(becalm).transpose()?.map(|becalm| format!("{AHEAD}{becalm}"));
    let all: Vec<String> = lookups.map(ToOwned::to_owned).into_iter().chain(ahead).collect();
    Ok((!all.is_empty()).then(|| all.join(",")))
}

/// Returns the path of this program, for the audit module.
fn becalm() -> Result<String> {
    let path = env::current_exe().context("the path of becalm is not known")?;
    variables::text_of_switch(&path)
        .map(ToOwned::to_owned)
        .ok_or_else(|| no_text(format_args!("the path {}", path.display())))
}

/// Returns the stores of an index, whose directories show that packages come or go.
///
/// # Errors
/// Returns an error if the file is no index.
pub fn stores(index: &Path) -> Result<Vec<BString>> {
    let opened = file::open(index)?;
    Ok(opened.index.roots().map_err(damaged(index))?)
}

/// Returns the path of the named index; otherwise that of this session if it is removed, or the
/// default one.
fn path_of(options: &Options) -> Result<PathBuf> {
    // The first index of this session.
    let of_session = || {
        let list = env::var_os(AUDIT).filter(|_| options.undo);
        variables::indexes(list.as_deref(), None).into_iter().next()
    };
    let path = options.index.clone().or_else(of_session).or_else(places::found);
    let own = places::own();
    let path = path.or_else(|| own.clone().filter(|_| options.undo));
    path.ok_or_else(|| match own {
        Some(own) => anyhow!("no index at {}; becalm index STORE... makes one", own.display()),
        None => anyhow!(
            "HOME is not set, so no index of this user can be found, and there is none at {}; \
             --index FILE names one",
            places::SYSTEM
        ),
    })
}

/// Returns the error for an index that not all users can use. If a user cannot read it, the loader prints an
/// error at every start of that user's programs. If a program uses another user's index, it grants that user its
/// privileges.
fn not_for_all(index: &Path, why: &Untrusted) -> anyhow::Error {
    let missing = Path::new(places::SYSTEM).parent().filter(|dir| !dir.is_dir());
    let make_dir = missing.map_or(String::new(), |dir| format!("mkdir -p {} && ", dir.display()));
    anyhow!(
        "{}: not for the programs of all users: {why}; as root, make one for all with \
         {make_dir}becalm index STORE... -o {}",
        index.display(),
        places::SYSTEM
    )
}

/// Returns the error for text that cannot be in a line for a shell or tool.
fn no_text(what: std::fmt::Arguments<'_>) -> anyhow::Error {
    anyhow!("{what} cannot be written for a shell or tool: not UTF-8, or with a control character")
}

/// Returns the programs of the index that do not fit a session with this static TLS. A module cannot
/// help programs that need a larger alignment: the loader lays out static TLS before it calls a
/// module.
fn unfit(index: &Opened, session: u64) -> Result<Vec<Unfit>> {
    let is_unfit = |need: Start| need.no_start || u64::from(need.static_tls) > session;
    let programs = index.index.programs(is_unfit).map_err(damaged(&index.path))?;
    let short = programs.iter().filter_map(|(program, need)| {
        let (program, bytes) = (program.clone(), u64::from(need.static_tls));
        (bytes > session).then_some(Unfit { program, reason: Reason::StaticTls { bytes } })
    });
    let impossible = programs.iter().filter(|(_, need)| need.no_start).cloned();
    let impossible = impossible.map(|(program, _)| Unfit { program, reason: Reason::Alignment });
    Ok(short.chain(impossible).collect())
}
