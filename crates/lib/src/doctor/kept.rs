//! Programs outside of sessions: the indexes of single programs that `becalm run` keeps, programs that are
//! switched on, and the state of one program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::ensure;
use bstr::BString;
use rustix::fs::{Access, access};
use serde::Serialize;

use crate::assume::{self, Assumptions};
use crate::check::check;
use crate::first_line::FirstLine;
use crate::index::{current, file, places};
use crate::json::lossy;
use crate::on;
use crate::path::path_bytes;
use crate::run::program::{self, Program};
use crate::targets::Target;
use crate::trees::begin::is_networked;

/// An index of a single program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptIndex {
    /// The program.
    #[serde(serialize_with = "lossy")]
    pub program: BString,
    /// Bytes of the index.
    pub bytes: u64,
    /// The time when it was made or last compared with the files, in seconds since 1970.
    pub compared: u64,
    /// False if a file or directory of it is known to have changed.
    pub fresh: bool,
}

/// Returns the files of the indexes.
pub(super) fn files() -> Vec<PathBuf> {
    places::cache().iter().flat_map(|folder| places::files_ending(folder, "so")).collect()
}

impl KeptIndex {
    fn at(path: &Path) -> Option<Self> {
        let index = file::read_trusted(path).ok()?.index;
        let facts = path.metadata().ok()?;
        let compared = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let program = index.programs.first()?.path.clone();
        Some(Self { program, bytes: facts.len(), compared, fresh: !current::has_changed(&index) })
    }

    /// Returns those of the cache, by program.
    pub(super) fn all() -> Vec<Self> {
        let mut all: Vec<Self> = files().iter().filter_map(|path| Self::at(path)).collect();
        all.sort_by(|a, b| (&a.program, b.compared).cmp(&(&b.program, a.compared)));
        all
    }
}

/// Programs that have an index of their own, whatever the session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alone {
    /// Indexes of single programs that `becalm run` made and keeps.
    pub kept: u64,
    /// Programs that `becalm on` has switched on, for this user or for all.
    pub switched_on: u64,
    /// Those of them that do not start by the index, or not as they were indexed.
    pub stale: u64,
}

impl Alone {
    /// Counts them.
    pub(super) fn count() -> Self {
        let kept = files().len() as u64;
        let programs: Vec<on::Program> = switched_on().collect();
        let stale = programs.iter().filter(|program| program.fresh == Some(false)).count();
        Self { kept, switched_on: programs.len() as u64, stale: stale as u64 }
    }

    /// True if there are none.
    pub(super) fn is_empty(self) -> bool {
        self.kept == 0 && self.switched_on == 0
    }
}

/// The state of one program.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramState {
    /// The program, its links resolved; for a script, its interpreter.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The first line that other commands print about it.
    pub first_line: String,
    /// The program as it is named: a virtual environment's Python is a link to another one.
    #[serde(skip)]
    pub named: PathBuf,
    /// True if it is on a network file system, as it is named.
    #[serde(skip)]
    pub networked: bool,
    /// True if an index makes it start quicker, as far as that can be predicted.
    #[serde(skip)]
    pub gains: bool,
    /// True if `becalm on` has switched it on and it starts by the index; false if it is switched on
    /// and does not; null if it is not switched on.
    pub switched_on: Option<bool>,
}

impl ProgramState {
    /// Examines a program, which is searched for along `PATH`.
    ///
    /// # Errors
    /// Returns an error if there is no such program.
    pub fn of(name: &OsStr) -> anyhow::Result<Self> {
        let found = program::find(name)?;
        let named = found.path.clone();
        let networked = is_networked(&named);
        let Program { real, .. } = Program::look(found)?;
        // Only an executable file is a script.
        ensure!(
            named.canonicalize().is_ok_and(|file| file == real)
                || access(&named, Access::EXEC_OK).is_ok(),
            program::not_a_program(&named)
        );
        let path = path_bytes(&real);
        let line = first_line(&real);
        let gains = line.as_ref().is_some_and(FirstLine::gains);
        let first_line = line.map_or_else(
            || format!("{}: cannot be predicted", real.display()),
            |line| line.to_string(),
        );
        let mut of_path =
            switched_on().filter(|it| it.path.canonicalize().is_ok_and(|it| it == real));
        let switched_on = of_path.next().and_then(|it| it.fresh);
        Ok(Self { path, named, networked, first_line, gains, switched_on })
    }
}

/// Returns the programs that `becalm on` has switched on, for this user and for all.
fn switched_on() -> impl Iterator<Item = on::Program> {
    [false, true].into_iter().flat_map(on::switched_on).flatten()
}

fn first_line(program: &Path) -> Option<FirstLine> {
    let assumed = Assumptions::new(&assume::Options::default()).ok()?;
    let target = Target::named(&assumed, program);
    let session = assumed.fs.session();
    let (mut program, closure) = check(&assumed, &session, &target).ok()??;
    if let Some(closure) = &closure {
        program.add_estimate(&assumed, &session, &target, closure);
    }
    Some(FirstLine::of(&program))
}
