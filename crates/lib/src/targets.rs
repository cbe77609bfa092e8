//! Finds the files that the paths of the command line name.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use becalm_host::trace::Command;
use becalm_host::{WalkOptions, find_objects};
use bstr::{BString, ByteSlice};

use crate::assume::Assumptions;
use crate::path::path_bytes;
use crate::problem::NoPlace;
pub use crate::problem::Problem;
use crate::words::words;

/// One file to process.
#[derive(Clone, Debug)]
pub struct Target {
    /// The path that is shown to the user.
    pub shown: BString,
    /// The path inside the assumed root.
    pub inside: BString,
    /// The path on this machine.
    pub host: PathBuf,
    /// True if the user named the file itself, not a folder above it.
    pub named: bool,
}

impl Target {
    /// Returns the file at a path of this machine, as if it was named.
    #[must_use]
    pub fn named(assumed: &Assumptions, path: &Path) -> Self {
        let (shown, inside) = (path_bytes(path), assumed.fs.inside(path));
        Self { shown, inside, host: path.to_owned(), named: true }
    }

    /// Returns a file that was found below a folder.
    pub(crate) fn found(assumed: &Assumptions, path: &Path) -> Self {
        Self { named: false, ..Self::named(assumed, path) }
    }

    /// Returns the path on this machine without links; `None` if the file does not exist.
    #[must_use]
    pub fn real(&self) -> Option<BString> {
        self.host.canonicalize().ok().map(|real| path_bytes(&real))
    }
}

/// The files that the command line names.
#[derive(Debug, Default)]
pub struct Targets {
    /// The files, in order of path.
    pub files: Vec<Target>,
    /// Files and folders that could not be examined.
    pub problems: Vec<Problem>,
    /// Folders in which an interrupted run left files.
    pub littered: Vec<PathBuf>,
    /// Folders without any ELF file below them.
    pub empty_folders: Vec<BString>,
    /// True if the user named exactly one file.
    pub is_one_file: bool,
}

/// Finds the files. A folder is walked; a named file is taken whatever its name, and an error with
/// it becomes a problem.
#[must_use]
pub fn find(assumed: &Assumptions, paths: &[PathBuf]) -> Targets {
    let mut targets = Targets::default();
    for path in paths {
        if let Err(error) = add(assumed, path, &mut targets) {
            targets.problems.push(Problem::new(path_bytes(path), error));
        }
    }
    let folders = paths.len() != 1 || !targets.files.iter().all(|file| file.named);
    targets.is_one_file = !folders && targets.empty_folders.is_empty();
    targets.files.sort_by(|a, b| a.shown.cmp(&b.shown).then(b.named.cmp(&a.named)));
    targets.files.dedup_by(|a, b| a.shown == b.shown);
    targets
}

fn add(assumed: &Assumptions, path: &Path, targets: &mut Targets) -> Result<()> {
    let inside = assumed.fs.inside(path);
    let host = assumed.fs.host_path(inside.as_bstr()).map_err(NoPlace::from)?;
    let found = host.metadata().map_err(|error| not_there(assumed, path, error))?;
    if found.is_dir() {
        add_folder(assumed, path, &host, targets);
    } else if found.is_file() {
        targets.files.push(Target { shown: path_bytes(path), inside, host, named: true });
    } else {
        bail!("not a regular file");
    }
    Ok(())
}

/// Returns the reason why a path cannot be examined; for a bare name, with the file along `PATH`.
fn not_there(assumed: &Assumptions, path: &Path, error: io::Error) -> anyhow::Error {
    let is_name = path.components().count() == 1 && error.kind() == io::ErrorKind::NotFound;
    let known = Command::new(path, []).file().ok().filter(|_| is_name && assumed.fs.is_real_root());
    let known = known
        .map(|known| format!("; PATH has {}", crate::escape::shown(path_bytes(&known).as_bstr())));
    anyhow!("{}{}", words(&error), known.unwrap_or_default())
}

fn add_folder(assumed: &Assumptions, path: &Path, host: &Path, targets: &mut Targets) {
    let walked = find_objects(&[host.to_owned()], WalkOptions::default());
    if walked.objects.is_empty() && walked.errors.is_empty() {
        targets.empty_folders.push(path_bytes(path));
    }
    targets.problems.extend(walked.errors.iter().map(Problem::from));
    targets.littered.extend(walked.littered);
    let objects = walked.objects.iter();
    targets.files.extend(objects.map(|found| Target::found(assumed, &found.path)));
}
