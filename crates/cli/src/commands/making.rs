//! What a plan makes anew: directories of links, loader caches, and the directories they lie
//! in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use becalm_core::carrier::Creation;
use becalm_host::write::Existing;
use bstr::{BStr, BString};

use super::writing::{Done, Editor, Outcome, reason};

/// Mode of a file that is made: for everyone to read.
const MODE: u32 = 0o644;

/// Makes all of `creations`, in order; `host` gives the path on this machine. A directory and
/// the links in it are made as one.
pub(crate) fn make(
    editor: &Editor,
    creations: &[Creation],
    host: impl Fn(&BStr) -> Result<PathBuf, String>,
) -> Vec<(BString, Done)> {
    let mut all = Vec::new();
    for creation in creations {
        if editor.is_interrupted() {
            all.push((creation.path().to_owned(), done(Outcome::NotReached)));
            continue;
        }
        let result = match creation {
            // Made with its directory.
            Creation::Link { .. } => continue,
            Creation::Directory(path) => directory(editor, path, creations, &host),
            Creation::File { path, bytes } => host(path.as_ref()).and_then(|path| {
                let made = editor.writer().write_new(&path, bytes, MODE, is_our_cache);
                made.map_err(|error| reason(&error, &path)).map(|made| (made, bytes.len()))
            }),
        };
        let outcome = match result {
            Ok((true, length)) => Outcome::Written { old_length: 0, new_length: length as u64 },
            Ok((false, _)) => Outcome::Unchanged,
            Err(why) => Outcome::Refused(why),
        };
        all.push((creation.path().to_owned(), done(outcome)));
    }
    all
}

fn done(outcome: Outcome) -> Done {
    Done { outcome, warnings: Vec::new() }
}

/// A directory, with the links that are to lie in it.
fn directory(
    editor: &Editor,
    path: &BString,
    creations: &[Creation],
    host: impl Fn(&BStr) -> Result<PathBuf, String>,
) -> Result<(bool, usize), String> {
    let links: Vec<(OsString, PathBuf)> = creations
        .iter()
        .filter_map(|creation| match creation {
            Creation::Link { path: link, target } => {
                let name = link.strip_prefix(path.as_slice())?.strip_prefix(b"/")?;
                let target = PathBuf::from(OsStr::from_bytes(target));
                (!name.contains(&b'/')).then(|| (OsStr::from_bytes(name).to_owned(), target))
            }
            _ => None,
        })
        .collect();
    let here = host(path.as_ref())?;
    let writer = editor.writer();
    let made = match links.as_slice() {
        [] => writer.make_dir(&here),
        links => writer.make_links(&here, links, |existing| is_our_farm(path.as_ref(), existing)),
    };
    made.map(|made| (made, 0)).map_err(|error| reason(&error, &here))
}

/// True for a loader cache that becalm wrote.
pub(crate) fn is_our_cache(existing: &Existing) -> bool {
    matches!(existing, Existing::File(bytes) if is_cache(bytes))
}

/// True for a directory of links where only becalm makes one.
pub(crate) fn is_our_farm(path: &BStr, existing: &Existing) -> bool {
    matches!(existing, Existing::Links(_)) && is_farm(path)
}

pub(crate) fn is_farm(_path: &BStr) -> bool {
    false
}
fn is_cache(_b: &[u8]) -> bool {
    false
}
