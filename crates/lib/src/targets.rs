//! The paths of the command line → the files to work on.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use becalm_host::trace::Command;
use becalm_host::{WalkOptions, find_objects};
use bstr::{BString, ByteSlice};

use crate::assume::Assumptions;
use crate::path::path_bytes;
pub use crate::problem::Problem;
use crate::words::{words, words_of_host};

/// One file to work on.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it is told to the user.
    pub shown: BString,
    /// Inside the root that is assumed.
    pub inside: BString,
    /// On this machine.
    pub host: PathBuf,
    /// True where the user named the file itself, not a folder above it.
    pub named: bool,
}

/// The files that the command line names.
#[derive(Debug, Default)]
pub struct Targets {
    /// The files, in order of path.
    pub files: Vec<Target>,
    /// Files and folders that could not be examined.
    pub problems: Vec<Problem>,
    /// Folders in which a killed run left something.
    pub littered: Vec<PathBuf>,
    /// Folders without any ELF file below them.
    pub empty_folders: Vec<BString>,
    /// True where the user named one file and nothing else.
    pub is_one_file: bool,
}

/// Finds the files. A folder is walked; a file that is named is taken whatever its
/// name, and whatever is wrong with it becomes a problem.
#[must_use]
pub fn find(assumed: &Assumptions, paths: &[PathBuf]) -> Targets {
    let mut targets = Targets::default();
    for path in paths {
        if let Err(reason) = add(assumed, path, &mut targets) {
            targets.problems.push(Problem { path: path_bytes(path), reason });
        }
    }
    let folders = paths.len() != 1 || !targets.files.iter().all(|file| file.named);
    targets.is_one_file = !folders && targets.empty_folders.is_empty();
    targets.files.sort_by(|a, b| a.shown.cmp(&b.shown).then(b.named.cmp(&a.named)));
    targets.files.dedup_by(|a, b| a.shown == b.shown);
    targets
}

fn add(assumed: &Assumptions, path: &Path, targets: &mut Targets) -> Result<(), String> {
    let inside = assumed.fs.inside(path);
    let host = assumed.fs.host_path(inside.as_bstr()).map_err(|e| words_of_host(&e).1)?;
    let found = host.metadata().map_err(|error| not_there(assumed, path, &error))?;
    if found.is_dir() {
        add_folder(assumed, path, &host, targets);
    } else if is_regular(&found) {
        targets.files.push(Target { shown: path_bytes(path), inside, host, named: true });
    } else {
        return Err("not a regular file".to_owned());
    }
    Ok(())
}

/// Why a path cannot be looked at; of a bare name, where `PATH` has it.
fn not_there(assumed: &Assumptions, path: &Path, error: &io::Error) -> String {
    let is_name = path.components().count() == 1 && error.kind() == io::ErrorKind::NotFound;
    let known = Command::new(path, []).file().ok().filter(|_| is_name && assumed.fs.is_real_root());
    match known {
        Some(known) => {
            let known = crate::escape::shown(path_bytes(&known).as_bstr());
            format!("{}; PATH has {known}", words(error))
        }
        None => words(error),
    }
}

fn is_regular(found: &Metadata) -> bool {
    found.file_type().is_file()
}

fn add_folder(assumed: &Assumptions, path: &Path, host: &Path, targets: &mut Targets) {
    let walked = find_objects(&[host.to_owned()], WalkOptions::default());
    if walked.objects.is_empty() && walked.errors.is_empty() {
        targets.empty_folders.push(path_bytes(path));
    }
    for error in &walked.errors {
        let (path, reason) = words_of_host(error);
        targets.problems.push(Problem { path, reason });
    }
    targets.littered.extend(walked.littered);
    for found in walked.objects {
        let inside = assumed.fs.inside(&found.path);
        let shown = path_bytes(&found.path);
        targets.files.push(Target { shown, inside, host: found.path, named: false });
    }
}
