//! Finds out how the kernel starts a command: the file, the loader, the privileges. It takes a few
//! system calls; nothing is run and no library is searched.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::elf;
use becalm_core::index::Target;
use becalm_host::secure::is_started_secure;
use object::ReadCache;
use rustix::fs::{Access, OFlags, access};

use crate::index::places::LINKS;
use crate::path::at;

/// The number of nested scripts that are followed (Linux `BINPRM_MAX_RECURSION`).
const MAX_SCRIPTS: usize = 4;
/// Length of the part of a file in which linkers put the program headers and usually the
/// interpreter.
const HEAD: usize = 4096;
/// The length of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const LINE: usize = 256;

/// The program that a command starts: itself, or the interpreter of a script.
#[derive(Debug)]
pub struct Program {
    /// Its path, as passed to the kernel.
    pub path: PathBuf,
    /// Its path with links resolved.
    pub real: PathBuf,
    /// The result of `fstat` for the file.
    pub facts: Metadata,
    /// How it starts.
    pub start: Start,
}

/// How a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// By a loader for this machine.
    Loader(Target),
    /// By musl's loader, which has no audit interface.
    Musl,
    /// By the kernel alone.
    Static,
    /// In secure-execution mode.
    Secure,
}

/// The file of a command.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// The file, if it was opened when it was found.
    opened: Option<Opened>,
}

/// An open file.
#[derive(Debug)]
struct Opened {
    file: File,
    facts: Metadata,
    /// The first bytes of a regular file.
    head: Vec<u8>,
}

impl Found {
    /// Returns the file at a path, which may not exist.
    pub fn unopened(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), opened: None }
    }
}

/// Finds the file of a command name, as `execvp` does: with one call for each directory of `PATH`. For a program
/// that is switched on, that is the program and not the starter.
///
/// # Errors
/// Returns an error if there is none.
pub fn find(name: &OsStr) -> Result<Found> {
    if name.as_bytes().contains(&b'/') {
        return Ok(Found::unopened(name));
    }
    candidates(name).into_iter().find_map(program_at).with_context(|| not_found(name))
}

/// Returns the paths at which a command name is looked for.
#[must_use]
pub fn candidates(name: &OsStr) -> Vec<PathBuf> {
    let in_dir = |dir: PathBuf| {
        if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) }
    };
    env::split_paths(&path_list()).filter(|dir| !dir.ends_with(LINKS)).map(in_dir).collect()
}

/// Returns what is said of a command that no directory of `PATH` has.
pub(crate) fn not_found(name: &OsStr) -> String {
    format!("{}: command not found", name.to_string_lossy())
}

/// Returns `PATH`, or the directories that execvp(3) searches without it.
pub(crate) fn path_list() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into())
}

pub(crate) fn not_a_program(path: &Path) -> anyhow::Error {
    anyhow!("{}: not a program", path.display())
}

/// Returns the program at a path, if it exists and is executable.
fn program_at(path: PathBuf) -> Option<Found> {
    access(&path, Access::EXEC_OK).ok()?;
    match Opened::at(&path) {
        Ok(opened) => opened.facts.is_file().then_some(Found { path, opened: Some(opened) }),
        // A file may be executable and not readable.
        Err(_) => path.metadata().is_ok_and(|facts| facts.is_file()).then(|| Found::unopened(path)),
    }
}

impl Opened {
    /// Opens a file. Never blocks; only a regular file is read.
    fn at(path: &Path) -> io::Result<Self> {
        // Without the flag, opening a FIFO would wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let facts = file.metadata()?;
        let mut head = Vec::new();
        if facts.is_file() {
            head.resize(HEAD, 0);
            let length = file.read_at(&mut head, 0)?;
            head.truncate(length);
        }
        Ok(Self { file, facts, head })
    }
}

impl Program {
    /// Examines what a path starts, behind scripts and `env`, for a process that then executes it or ends.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or starts nothing.
    pub fn look(found: Found) -> Result<Self> {
        let (program, file) = Self::examine(found)?;
        // execve closes the descriptor without a call of its own.
        let _ = file.into_raw_fd();
        Ok(program)
    }

    /// Examines what a path starts. Returns its open file, too.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or starts nothing.
    pub(crate) fn examine(found: Found) -> Result<(Self, File)> {
        let Found { mut path, mut opened } = found;
        for _ in 0..MAX_SCRIPTS {
            let opened_now = opened.take().map_or_else(|| Opened::at(&path), Ok);
            let Opened { file, facts, head } = opened_now.with_context(at(&path))?;
            if !facts.is_file() {
                return Err(not_a_program(&path));
            }
            if !head.starts_with(b"\x7fELF") {
                Found { path, opened } = interpreter_of(&head)?;
                continue;
            }
            let real = real(&file).or_else(|| path.canonicalize().ok());
            let real = real.with_context(|| format!("{}: its path is unknown", path.display()))?;
            let start = if is_started_secure(&real, facts.mode()) {
                Start::Secure
            } else {
                start(&file, &head).ok_or_else(|| not_a_program(&path))?
            };
            return Ok((Self { path, real, facts, start }, file));
        }
        bail!("{}: too many interpreters", path.display())
    }
}

/// Returns the path of an open file, in one call instead of one for each of its directories.
fn real(file: &File) -> Option<PathBuf> {
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()).read_link().ok()?;
    // The kernel appends this to the path of a removed file (proc(5)).
    (path.is_absolute() && !path.as_os_str().as_bytes().ends_with(b" (deleted)")).then_some(path)
}

fn start(file: &File, head: &[u8]) -> Option<Start> {
    // A tool that edits files may have moved the interpreter's path.
    let (ident, interpreter) = elf::start(head).or_else(|| elf::start(&ReadCache::new(file)))?;
    Some(match interpreter {
        None => Start::Static,
        // It has this name in any directory.
        Some(path) if becalm_core::path::name(&path).starts_with(b"ld-musl-") => Start::Musl,
        Some(_) => Start::Loader(Target::of(&ident)),
    })
}

/// Returns the program that the `env` in a script's first line would execute, and the name by which it would call it.
/// Any other file is returned as it is, also if `env` would have anything else to do.
#[must_use]
pub fn behind_env(mut found: Found) -> (Found, Vec<OsString>) {
    if found.opened.is_none() {
        found.opened = Opened::at(&found.path).ok();
    }
    match named_by_env(&found) {
        Some((named, called)) => (named, vec![called]),
        None => (found, Vec::new()),
    }
}

fn named_by_env(script: &Found) -> Option<(Found, OsString)> {
    let words = words_of_script(&script.opened.as_ref()?.head)?;
    let [b"/usr/bin/env" | b"/bin/env", name] = words.as_slice() else { return None };
    let is_plain = !name.starts_with(b"-") && !name.iter().any(|byte| b"=/\0".contains(byte));
    let name = OsStr::from_bytes(name);
    // The kernel would refuse the script.
    access(&script.path, Access::EXEC_OK).ok().filter(|()| is_plain)?;
    let found = find(name).ok()?;
    let head = &found.opened.as_ref()?.head;
    // `env` gives any other file to a shell.
    let is_executed = head.starts_with(b"\x7fELF") || head.starts_with(b"#!");
    is_executed.then(|| (found, name.to_owned()))
}

/// Returns the words of a script's first line (Linux `fs/binfmt_script.c`); `None` for a file that is no script.
pub(crate) fn words_of_script(head: &[u8]) -> Option<Vec<&[u8]>> {
    let script = head[..head.len().min(LINE)].strip_prefix(b"#!")?;
    let words = script.split(|&byte| byte == b'\n').next()?.split(|byte| b" \t".contains(byte));
    Some(words.filter(|word| !word.is_empty()).collect())
}

/// Returns the program that a script's first line names; for `env`, the program named after it.
fn interpreter_of(head: &[u8]) -> Result<Found> {
    let unopened = |path: &[u8]| Found::unopened(OsStr::from_bytes(path));
    match words_of_script(head).unwrap_or_default().as_slice() {
        [env, rest @ ..] if env.ends_with(b"/env") => {
            let mut rest = rest.iter();
            let named = rest.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
            named.map_or_else(|| Ok(unopened(env)), |name| find(OsStr::from_bytes(name)))
        }
        [interpreter, ..] => Ok(unopened(interpreter)),
        // A file without a `#!` line is run by the shell.
        [] => Ok(unopened(b"/bin/sh")),
    }
}
