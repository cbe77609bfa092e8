//! Creations of a plan: directories of links, loader caches, and the directories that contain them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::fs::Added;
use becalm_core::path;
use becalm_core::strategy::row::PackageFile;
use becalm_core::strategy::{Created, Strategy, farm};
use becalm_host::write::{Existing, WriteError};
use bstr::{BStr, ByteSlice};

use crate::path::{path_bytes, path_of};
use crate::problem::NoPlace;
use crate::writing::{Changed, Editor, Outcome, is_busy, reason};

/// Mode of a file that is made: for everyone to read.
const MODE: u32 = 0o644;

/// The links to make, by their directory.
type Farms<'a> = BTreeMap<&'a BStr, Vec<(OsString, PathBuf)>>;

/// Makes all `creations`, in order; `host` returns the path on this machine. A directory and its
/// links are made in one step.
pub(crate) fn make(
    editor: &Editor<'_>,
    creations: &[Created],
    host: impl Fn(&BStr) -> Result<PathBuf, NoPlace>,
) -> Vec<Changed> {
    let mut farms = farms(creations);
    let mut all = Vec::new();
    for creation in creations {
        let path = place_of(creation);
        let links = farms.remove(path);
        // The other links of a directory were made with the first one.
        if matches!(creation.kind, Added::Link { .. }) && links.is_none() {
            continue;
        }
        if editor.is_interrupted() {
            all.push(Changed::of(path.to_owned(), Outcome::NotReached));
            continue;
        }
        let outcome = match host(path) {
            Ok(here) => made_at(editor, creation, &here, links.as_deref()),
            Err(error) => Outcome::refused(error.to_string()),
        };
        all.push(Changed::of(path.to_owned(), outcome));
    }
    all
}

fn made_at(
    editor: &Editor<'_>,
    creation: &Created,
    here: &Path,
    links: Option<&[(OsString, PathBuf)]>,
) -> Outcome {
    let is_homeless =
        |made: &Result<_, WriteError>| made.as_ref().is_err_and(WriteError::is_missing);
    let make = || {
        let made = one(editor, creation, here, links);
        if is_homeless(&made) {
            // A becalm undo has removed the directories, which were empty.
            make_above(editor, here);
        }
        made
    };
    let made = editor.wait_for(make, is_homeless);
    // An empty directory keeps its marker until something is in it.
    if made.is_ok() && creation.kind != Added::Directory {
        // This includes directories that an interrupted run had made.
        settle(editor, made_above(here));
    }
    match made {
        Ok((true, length)) => Outcome::Written { old_length: 0, new_length: length as u64 },
        Ok((false, _)) => Outcome::Unchanged,
        Err(error) => Outcome::refused(reason(&error, here)),
    }
}

/// Returns the path under which a creation is made and reported: for a link, its directory.
pub(crate) fn place_of(creation: &Created) -> &BStr {
    match creation.kind {
        Added::Link { .. } => path::parent(creation.path.as_ref()),
        _ => creation.path.as_ref(),
    }
}

/// Removes the marker of unfinished directories from those that contain files; these are kept.
pub(crate) fn settle<'a>(editor: &Editor<'_>, dirs: impl Iterator<Item = &'a Path>) {
    let holds = |dir: &&Path| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    for dir in dirs.filter(holds) {
        // The marker of a directory that cannot be settled does no harm.
        let _ = editor.writer.settle_dir(dir);
    }
}

/// Returns the directories above a path that becalm makes if they are missing.
pub(crate) fn made_above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).take_while(|dir| is_made(dir))
}

/// True for a directory that becalm makes if it is missing.
fn is_made(dir: &Path) -> bool {
    let farms = Path::new(farm::FARMS);
    let made = package_files().map(|file| Path::new(file.below)).chain([farms]);
    let mut above = made.filter_map(Path::parent);
    lies_in_farms(dir) || dir.ends_with(farms) || above.any(|above| dir.ends_with(above))
}

/// Makes the missing directories above a path that becalm makes. Those that were there when the plan
/// was made are not in it.
fn make_above(editor: &Editor<'_>, here: &Path) {
    for dir in made_above(here).collect::<Vec<_>>().into_iter().rev() {
        // The creation below it reports the failure.
        let _ = no_link(dir).and_then(|()| editor.writer.make_dir(dir));
    }
}

/// Checks that no directory on the way to a path below becalm's own is a link: only becalm makes these
/// directories, so a link there is somebody else's.
fn no_link(here: &Path) -> Result<(), WriteError> {
    let own = here.ancestors().take_while(|dir| lies_in_farms(&dir.join("any")));
    match { own }.find(|dir| dir.is_symlink()) {
        Some(link) => Err(WriteError::NotOurs(link.to_owned())),
        None => Ok(()),
    }
}

fn one(
    editor: &Editor<'_>,
    creation: &Created,
    here: &Path,
    links: Option<&[(OsString, PathBuf)]>,
) -> Result<(bool, usize), WriteError> {
    let writer = &editor.writer;
    no_link(here)?;
    // Another becalm may make the same file or directory at this moment. What is there is inspected
    // again at each attempt.
    let is_taken = |made: &Result<bool, WriteError>| {
        let is_other = |error: &_| matches!(error, WriteError::Changed { .. });
        made.as_ref().is_err_and(|error| is_busy(error) || is_other(error))
    };
    match (&creation.kind, links) {
        (Added::File { bytes }, _) => {
            let ours = |existing: &Existing| is_of_package(existing) || is_our_index(existing);
            let write = || writer.write_new(here, bytes, MODE, ours);
            editor.wait_for(write, is_taken).map(|made| (made, bytes.len()))
        }
        (_, None) => writer.make_dir(here).map(|made| (made, 0)),
        (_, Some(links)) => {
            let ours = |existing: &Existing| is_our_farm(here, existing);
            // Another becalm may have added some links.
            let make = || writer.make_links(here, &with_those_there(here, links), ours);
            editor.wait_for(make, is_taken).map(|made| (made, 0))
        }
    }
}

fn farms(creations: &[Created]) -> Farms<'_> {
    let mut farms = Farms::new();
    for creation in creations {
        if let Added::Link { target } = &creation.kind {
            let dir = place_of(creation);
            let name = path_of(&creation.path[dir.len() + 1..]).into_os_string();
            farms.entry(dir).or_default().push((name, path_of(target)));
        }
    }
    farms
}

/// Returns all links of a directory: a plan names only the missing ones.
fn with_those_there(dir: &Path, wanted: &[(OsString, PathBuf)]) -> Vec<(OsString, PathBuf)> {
    let there = fs::read_dir(dir).into_iter().flatten().flatten();
    let there = there.filter_map(|entry| Some((entry.file_name(), entry.path().read_link().ok()?)));
    let mut all: BTreeMap<OsString, PathBuf> = there.collect();
    all.extend(wanted.iter().cloned());
    all.into_iter().collect()
}

/// Returns the files that strategies make in packages.
pub(crate) fn package_files() -> impl Iterator<Item = &'static PackageFile> {
    Strategy::ALL.iter().filter_map(|strategy| strategy.row().file.as_ref())
}

/// True for a file of a package that becalm wrote.
pub(crate) fn is_of_package(existing: &Existing) -> bool {
    let Existing::File(bytes) = existing else { return false };
    let bytes: Arc<[u8]> = Arc::from(bytes.as_slice());
    package_files().any(|file| (file.is_ours)(Arc::clone(&bytes)))
}

/// True for an index; only becalm makes one.
pub(crate) fn is_our_index(existing: &Existing) -> bool {
    matches!(existing, Existing::File(bytes) if becalm_core::index::split(bytes).is_ok())
}

/// True for a directory of links in a place where only becalm makes one.
pub(crate) fn is_our_farm(path: &Path, existing: &Existing) -> bool {
    matches!(existing, Existing::Links(_)) && lies_in_farms(path)
}

/// True for a path below becalm's directory in a package.
pub(crate) fn lies_in_farms(path: &Path) -> bool {
    let place = format!("/{}/", farm::FARMS);
    path_bytes(path).contains_str(place)
}

#[cfg(test)]
mod tests {
    use becalm_host::write::WriteOptions;

    use super::*;
    use crate::progress::Silent;

    #[test]
    fn directories_that_another_run_removed_since_the_plan_are_made_again() {
        let root = tempfile::tempdir().expect("made");
        let farm = root.path().join(farm::FARMS).join("lib/libtwo.so");
        let link = farm.join("libone.so");
        let path = path_bytes(&link);
        // The plan has no directory: they were there when it was made.
        let creations =
            [Created { path, kind: Added::Link { target: "/one/lib/libone.so".into() } }];
        let editor = Editor::new(WriteOptions::default(), &Silent);
        let host = |path: &BStr| Ok(path_of(path));
        let made = make(&editor, &creations, host);
        assert!(made.iter().all(|made| made.outcome.is_written()), "{made:?}");
        assert_eq!(fs::read_link(link).expect("is there"), Path::new("/one/lib/libone.so"));
    }
}
