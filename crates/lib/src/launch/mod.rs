//! Finds the program that a loader loads for a command: names along `PATH`, `#!` lines, and wrapper
//! scripts that end in `exec`.
//!
//! [`find`] does for `becalm check` what [`targets::find`] does for commands that write: a script
//! is only read here, so its program can be checked instead.

mod script;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::fs::FileSystem;
use bstr::{BStr, BString, ByteSlice};

use crate::assume::Assumptions;
use crate::escape::shown;
use crate::launch::script::{Script, Wrapped};
use crate::path::{path_bytes, path_of};
use crate::run::program;
use crate::targets::{self, Problem, Targets};
use crate::words::errno_words;

/// The number of nested scripts that are followed.
const MAX_SCRIPTS: usize = 8;
/// The longest script whose text is read.
const MAX_LENGTH: u64 = 4 << 20;

/// The steps of a start to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The scripts that are read and the programs that are executed before the program, in order.
    pub steps: Vec<Step>,
    /// The program.
    pub program: BString,
    /// Remarks on the launch for a reader.
    pub findings: Vec<Finding>,
}

/// One step to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A script is read.
    Script(BString),
    /// A program is executed.
    Program(BString),
}

/// A remark on a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The script that it is about.
    pub script: BString,
    /// The fault and its remedy.
    pub words: String,
    /// True if it counts for the exit status: it makes the start slower.
    pub is_costly: bool,
}

/// The files and directories in which a launch is looked up.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The files.
    pub fs: &'a dyn FileSystem,
    /// The directories of `PATH`, separated by colons.
    pub path: &'a BStr,
    /// The stores.
    pub stores: &'a becalm_core::search::Stores,
}

/// Finds the files as [`targets::find`] does, but replaces each script by its program and each bare
/// name without a file by the one along `PATH`. Returns the launches of these by the displayed path
/// of their program.
#[must_use]
pub fn find(assumed: &Assumptions, paths: &[PathBuf]) -> (Targets, Vec<Launch>) {
    let session = assumed.fs.session();
    let path = crate::path::bytes(&program::path_list());
    let world = World { fs: &session, path: path.as_ref(), stores: &assumed.stores };
    let mut started = Vec::new();
    let (mut launches, mut problems) = (Vec::new(), Vec::new());
    for named in paths {
        let named = in_path(assumed, named);
        let inside = assumed.fs.inside(&named);
        match follow(world, inside.as_ref()) {
            Ok(None) => started.push(named),
            Ok(Some(launch)) => {
                started.push(path_of(launch.program.as_ref()));
                launches.push(launch);
            }
            Err(error) => problems.push(Problem::new(path_bytes(&named), error)),
        }
    }
    let mut found = targets::find(assumed, &started);
    found.is_one_file &= problems.is_empty();
    found.problems.extend(problems);
    (found, launches)
}

/// Returns the path itself, or the file of that name along `PATH`.
pub(crate) fn in_path(assumed: &Assumptions, named: &Path) -> PathBuf {
    let is_name = named.components().count() == 1 && named.symlink_metadata().is_err();
    let found = || program::find(named.as_os_str()).ok().map(|found| found.path);
    let found = (is_name && assumed.fs.is_real_root()).then(found).flatten();
    found.unwrap_or_else(|| named.to_owned())
}

/// Follows a script to the program that it starts. `None` for a file that is not a script.
///
/// # Errors
/// Returns an error if the script leads to no program.
pub fn follow(world: World<'_>, path: &BStr) -> Result<Option<Launch>> {
    let mut launch = Launch { program: path.to_owned(), ..Launch::default() };
    while let Some(script) = read(world, launch.program.as_ref(), launch.steps.is_empty())? {
        if launch.scripts().count() == MAX_SCRIPTS {
            bail!("more than {MAX_SCRIPTS} scripts that lead to one another");
        }
        let path = launch.program.clone();
        launch.steps.push(Step::Script(path.clone()));
        launch.program = launch.enter(world, &path, &script)?;
    }
    Ok(Some(launch).filter(|launch| !launch.steps.is_empty()))
}

/// Returns the script at a path; `None` if the file is not a script. The first file may be missing:
/// the caller reports that.
fn read(world: World<'_>, path: &BStr, is_first: bool) -> Result<Option<Script>> {
    let unreadable = |errno| anyhow!("{}: {}", shown(path), errno_words(errno));
    let opened = match world.fs.open(path) {
        Ok(opened) => opened,
        Err(_) if is_first => return Ok(None),
        Err(errno) => return Err(unreadable(errno)),
    };
    let is_script = opened.head.as_ref().is_ok_and(|head| head.starts_with(b"#!"));
    if !is_script || opened.len > MAX_LENGTH {
        return Ok(None);
    }
    let text = world.fs.read(path).map_err(unreadable)?;
    Script::parse(&text).context("a script whose first line names no interpreter").map(Some)
}

impl Launch {
    /// Returns the scripts, outermost first.
    pub fn scripts(&self) -> impl Iterator<Item = &BString> {
        self.steps.iter().filter_map(|step| match step {
            Step::Script(path) => Some(path),
            Step::Program(_) => None,
        })
    }

    /// Reads one script and returns the path that it leads to.
    fn enter(&mut self, world: World<'_>, path: &BString, script: &Script) -> Result<BString> {
        let mut interpreter = script.interpreter.clone();
        if let Some(name) = &script.by_env {
            self.steps.push(Step::Program(interpreter));
            interpreter = world.find(name.as_ref())?;
        }
        if script.is_python(interpreter.as_ref()) && !script.is_isolated() {
            self.findings.extend(store_on_sys_path(world, path));
        }
        let Some(Wrapped { program, by_env, sets }) = script.wrapped(interpreter.as_ref()) else {
            return Ok(interpreter);
        };
        self.findings.extend(sets.into_iter().map(|variable| sets_variable(path, variable)));
        self.steps.push(Step::Program(interpreter));
        if let Some(env) = by_env {
            self.steps.push(Step::Program(world.find(env.as_ref())?));
        }
        world.find(program.as_ref())
    }
}

impl World<'_> {
    /// Returns the path of a command: the name itself if it has a slash, else the first file along
    /// `PATH`.
    fn find(self, name: &BStr) -> Result<BString> {
        if name.contains(&b'/') {
            return Ok(name.to_owned());
        }
        let candidate = |dir: &[u8]| {
            let dir = if dir.is_empty() { b"." } else { dir };
            BString::from([dir, b"/", name].concat())
        };
        let opens = |path: &BString| {
            let file = self.fs.open(path.as_ref());
            file.is_ok_and(|file| file.head.is_ok() && file.mode & 0o111 != 0)
        };
        let mut found = self.path.split(|&byte| byte == b':').map(candidate);
        found.find(opens).with_context(|| {
            format!("the program of the script is {}, which PATH does not have", shown(name))
        })
    }
}

/// Returns the remark on a script that sets a variable which its program's loader reads.
fn sets_variable(script: &BString, variable: &str) -> Finding {
    let flag = match variable {
        "LD_PRELOAD" => "--preload",
        "LD_AUDIT" => "--audit",
        _ => "--library-path",
    };
    let words =
        format!("sets {variable}, which the prediction ignores; give its value with {flag}");
    Finding { script: script.clone(), words, is_costly: false }
}

/// Returns the remark on a Python script directly below a store prefix: Python puts the script's directory first on
/// `sys.path` and lists it, and with it all packages of the store.
fn store_on_sys_path(world: World<'_>, script: &BString) -> Option<Finding> {
    let real = world.fs.canonicalize(script.as_ref()).ok()?;
    let dir = real[..real.rfind_byte(b'/')?].as_bstr();
    let store = world.stores.iter().find(|store| *store == dir)?;
    let words = format!(
        "a Python script directly in the store {}: Python puts that directory first on sys.path and lists all its \
         packages; put the script into a package's directory, or start it with python -P",
        shown(store)
    );
    Some(Finding { script: script.clone(), words, is_costly: true })
}
