//! Starts with a pack: it is unpacked first, and a start that does not look at the tree executes the program of
//! the pack.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use becalm_lib::path::path_bytes;
use becalm_lib::run::error::RunError;
use becalm_lib::run::program::{self, Found};
use becalm_lib::trees::packed::{Check, Pack};
use becalm_lib::trees::unpack;

use crate::run::args::RunArgs;
use crate::terminal;

/// The line of a start with `--check never` whose pack does not have the command.
const NOT_PACKED: &str = "not in the pack: compared with the tree in this start";
/// The line of a start with a pack whose tree does not answer.
const SILENT: &str = "does not answer; started without what is known of it";

/// Unpacks the pack of a start, if there is one.
///
/// # Errors
/// Returns an error if it cannot be unpacked and the start is strict. Otherwise a line says so.
pub(crate) fn unpacked(args: &RunArgs) -> Result<Option<Pack>> {
    let Some(file) = &args.pack else { return Ok(None) };
    match unpack::ensure(file, args.check.into()) {
        Ok(pack) => Ok(Some(pack)),
        Err(error) if args.strict => Err(error.into()),
        Err(error) => {
            if !args.quiet {
                terminal::complain(&Error::from(error).context("started without the pack"));
            }
            Ok(None)
        }
    }
}

/// Finds the path of a command and the file to execute: if the tree is not asked, that of the pack.
///
/// # Errors
/// Returns an error if there is no such command.
pub(crate) fn command(name: &OsStr, pack: Option<Pack>) -> Result<(PathBuf, Found), RunError> {
    let unpacked = |path: &Path| pack.filter(|it| it.check == Check::Never)?.program(path);
    if name.as_bytes().contains(&b'/')
        && let Some(place) = unpacked(name.as_ref())
    {
        return Ok((name.into(), Found::unopened(place)));
    }
    match program::find(name) {
        Ok(found) => Ok((found.path.clone(), found)),
        Err(error) => {
            let dirs = env::var_os("PATH").unwrap_or_default();
            let paths = env::split_paths(&dirs).map(|dir| dir.join(name));
            let found = paths.filter_map(|path| Some((unpacked(&path)?, path))).next();
            found.map(|(place, path)| (path, Found::unopened(place))).ok_or(error)
        }
    }
}

/// True if a start should not look at the tree, because it does not answer. Prints a line then, and if the
/// pack does not have the command.
pub(crate) fn is_silent(args: &RunArgs, pack: Pack, path: &Path, is_told: bool) -> bool {
    let is_unknown = pack.check == Check::Never && !is_told;
    let silent = pack.silent_tree(path);
    if args.quiet {
        return silent.is_some();
    }
    if is_unknown {
        terminal::note(path_bytes(path).as_ref(), NOT_PACKED);
    }
    if let Some(tree) = &silent {
        terminal::note(tree.as_bytes().into(), SILENT);
    }
    silent.is_some()
}
