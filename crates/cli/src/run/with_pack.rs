//! Starts with a pack: it is unpacked first, and a start that does not look at the tree executes the program of
//! the pack.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use becalm_lib::path::path_bytes;
use becalm_lib::run::program::{self, Found};
use becalm_lib::trees::packed::{Check, Pack};
use becalm_lib::trees::{begin, unpack};

use crate::run::args::RunArgs;
use crate::terminal;

/// The line of a start with `--check never` whose pack does not have the command.
const NOT_PACKED: &str = "not in the pack: compared with the tree in this start";
/// The line of a start whose pack was unpacked where nothing can be executed.
const NO_EXEC: &str = "started from the tree: the pack is on a file system that is mounted noexec";
/// The line of a start with a pack whose tree does not answer.
const SILENT: &str = "does not answer; started without what is known of it";

/// Unpacks the pack of a start, if there is one.
///
/// # Errors
/// Returns an error if it cannot be unpacked and the start is strict. Otherwise a line says so.
pub(crate) fn unpacked(args: &RunArgs) -> Result<Option<Pack>> {
    let Some(file) = &args.pack else { return Ok(None) };
    // A program of the pack needs its files too.
    if args.check == Check::Never && (args.no_ahead || args.no_bind || begin::is_off()) {
        return Ok(None);
    }
    match unpack::ensure(file, args.check) {
        Ok(pack) => Ok(Some(pack)),
        Err(error) if args.strict => Err(error),
        Err(error) => {
            if !args.quiet {
                terminal::complain(&error.context("started without the pack"));
            }
            Ok(None)
        }
    }
}

/// A command that is started with a pack, or without one.
pub(crate) struct Start {
    /// The path of the command.
    pub path: PathBuf,
    /// The file to execute.
    pub found: Found,
    /// The pack, as this start uses it.
    pub pack: Option<Pack>,
    /// True if the program is told what is in the pack.
    pub is_told: bool,
    /// True if the start should not look at the tree, because it does not answer.
    pub is_silent: bool,
}

/// Finds the path of a command and the file to execute: if the tree is not asked, that of the pack. Prints a line if
/// the tree does not answer, or if the pack does not have the command.
///
/// # Errors
/// Returns an error if there is no such command.
pub(crate) fn start(args: &RunArgs, name: &OsStr, pack: Option<Pack>) -> Result<Start> {
    let found = found(name, pack)?;
    let path = found.path.clone();
    let silent = pack.and_then(|pack| pack.silent_tree(&path));
    let is_silent = silent.is_some();
    let pack = pack.map(|pack| if is_silent { pack } else { pack.of_start(&path) });
    let never = pack.filter(|pack| pack.check == Check::Never);
    let is_told = never.is_some_and(|pack| pack.knows(&path));
    let note = |of: &[u8], what: &str| {
        if !args.quiet {
            terminal::note(of.into(), what);
        }
    };
    if never.is_some() && !is_told {
        note(path_bytes(&path).as_ref(), NOT_PACKED);
    }
    if let Some(tree) = silent {
        note(tree.as_bytes(), SILENT);
    }
    let told = never.filter(|_| is_told);
    let place = told.and_then(|pack| pack.program(&path));
    if place.is_none() && told.is_some_and(Pack::is_noexec) {
        note(path_bytes(&path).as_ref(), NO_EXEC);
    }
    let found = place.map_or(found, Found::unopened);
    Ok(Start { path, found, pack, is_told, is_silent })
}

fn found(name: &OsStr, pack: Option<Pack>) -> Result<Found> {
    program::find(name).or_else(|error| {
        // The tree may be gone.
        let never = pack.filter(|it| it.check == Check::Never);
        let mut paths = program::candidates(name).into_iter();
        let known = paths.find(|path| never.is_some_and(|it| it.program(path).is_some()));
        known.map(Found::unopened).ok_or(error)
    })
}

/// Returns the interpreter of a script, with the words by which it is called before the script, if the pack has either.
/// A script that it cannot call by the path of the command is started from the tree.
pub(crate) fn interpreter(start: &Start) -> Option<(PathBuf, Vec<OsString>)> {
    let pack = start.pack.filter(|_| start.is_told)?;
    let mut head = [0; 256];
    let length = File::open(&start.found.path).ok()?.read(&mut head).ok()?;
    let words = words_of(&head[..length]);
    let named = words.first().map(PathBuf::from);
    if let Some(place) = named.as_ref().and_then(|named| pack.program(named)) {
        return Some((place, words));
    }
    let is_packed_script = start.found.path != start.path && !head.starts_with(b"\x7fELF");
    let by_env = || program::behind_env(Found::unopened(&start.found.path)).1;
    if !is_packed_script || !by_env().is_empty() {
        return None;
    }
    // The kernel would call it by its place in the folder of the pack.
    let named = named.filter(|named| !named.ends_with("env"));
    Some(named.map_or_else(|| (start.path.clone(), Vec::new()), |named| (named, words)))
}

/// Returns the words by which the kernel calls the interpreter that a script names.
fn words_of(head: &[u8]) -> Vec<OsString> {
    let line = head.strip_prefix(b"#!").and_then(|rest| rest.split(|&byte| byte == b'\n').next());
    // What follows the first word is one argument.
    let words = line.unwrap_or_default().trim_ascii().splitn(2, |byte| b" \t".contains(byte));
    let words = words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty());
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}
