//! The environment of a start with nothing applied, or with an index: for `lab compare` and `becalm
//! demo`.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use becalm_core::index::tls::SESSION;

use crate::assume;
use crate::index::variables::Settings;
use crate::index::{file, platforms};

/// Variables that a strategy needs in the environment.
pub type Variables = Vec<(OsString, OsString)>;

/// Returns the assumptions without the loader variables of the user's environment.
pub fn plain_assumptions() -> assume::Options {
    let none = || Some(OsString::new());
    assume::Options {
        library_path: none(),
        preload: none(),
        audit: none(),
        ..assume::Options::default()
    }
}

/// Returns the variables with which the programs of an index start, with a switch of its module.
///
/// # Errors
/// Returns an error if the file is not an index, or is damaged.
pub fn index_variables(index: &Path, switch: Option<&'static str>) -> Result<Variables> {
    let opened = file::open(index)?;
    let need = opened.index.static_tls();
    let module = platforms::audit_path(&opened.path, opened.index.target());
    let static_tls = SESSION.max(need.into());
    let switch = switch.map(ToOwned::to_owned);
    let variables = Settings { module, static_tls, switch }.added(|_| None).into_iter();
    Ok(variables.filter_map(|it| Some((it.name.into(), it.value?))).collect())
}

/// Environment variables that affect loaders and becalm's audit module.
const TAKEN: [&str; 8] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_DEBUG_OUTPUT",
    "LD_BIND_NOW",
    "GLIBC_TUNABLES",
    "BECALM",
];

/// Returns the environment of this process without the variables that affect loaders, and with the
/// given ones.
#[must_use]
pub fn environment(variables: &Variables) -> Variables {
    let own = std::env::vars_os().filter(|(name, _)| !TAKEN.iter().any(|taken| name == taken));
    own.chain(variables.iter().cloned()).collect()
}
