//! An object's own run path and one look along it, apart from any process.
//!
//! The model of a start walks directories in [`super::open_path`], with what the process knows of
//! each by then. Strategies and the index need what is the same in every process. All of them
//! share the rules here: which run path counts, which directory an element names, what one
//! candidate means, and which errno ends a search source.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::dirs::directory_name;
use super::verify::{Fitness, fitness};
use crate::elf::{DF_1_NODEFLIB, Dynamic, Ident};
use crate::fs::{Errno, FileKind, FileSystem, OpenedFile};
use crate::search::dst::{self, Tokens};

/// The run path of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunPath<'a> {
    /// The string, not empty.
    pub(crate) value: &'a BStr,
    /// It is a `DT_RPATH`, which the objects loaded by this one inherit.
    pub(crate) is_rpath: bool,
    /// `DF_1_NODEFLIB`: the search ends before the system directories.
    pub(crate) no_default_dirs: bool,
}

impl<'a> RunPath<'a> {
    /// The one that counts: `DT_RUNPATH` switches `DT_RPATH` off (`_dl_init_paths`,
    /// `cache_rpath`), and an empty one is none (`decompose_rpath`).
    pub(crate) fn of(dynamic: &'a Dynamic) -> Option<Self> {
        let value = dynamic.runpath.as_ref().or(dynamic.rpath.as_ref())?;
        (!value.is_empty()).then(|| Self {
            value: value.as_ref(),
            is_rpath: dynamic.runpath.is_none(),
            no_default_dirs: dynamic.flags_1 & DF_1_NODEFLIB != 0,
        })
    }
}

/// The directory that an element of a run path names in every process, ending in a slash, given
/// the object's `$ORIGIN`. `None` for an element that depends on the process: a relative one, one
/// with `$LIB` or `$PLATFORM`, and the root directory, which up to glibc 2.37 counts as absent
/// once a name was not found in it (bug 30435).
pub(crate) fn fixed_dir(element: &BStr, origin: &BStr) -> Option<BString> {
    let name = directory_name(element, &fixed_tokens(origin))?;
    (is_fixed(&name) && name != "/").then_some(name)
}

/// A path with its tokens replaced, if it names the same file in every process.
pub(crate) fn fixed_path(path: &BStr, origin: &BStr) -> Option<BString> {
    dst::expand(path, &fixed_tokens(origin)).filter(is_fixed)
}

/// No path holds a NUL, so that one in the result shows that `$LIB` was replaced.
fn fixed_tokens(origin: &BStr) -> Tokens<'_> {
    Tokens { origin: Some(origin), lib: BStr::new(b"\0"), platform: None, secure: None }
}

fn is_fixed(path: &BString) -> bool {
    path.starts_with(b"/") && !path.contains(&0)
}

/// The meaning of one candidate for a search.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// The file answers.
    Found(Arc<OpenedFile>),
    /// There is no such file; the search goes on.
    Absent,
    /// A file of another class or machine is there; the search goes on.
    PassedOver,
    /// This user may not open it (`EACCES`); the search goes on.
    Denied,
    /// The rest of the search source is skipped.
    EndsSource(Errno),
    /// The loader raises an error.
    Refused,
}

/// Looks for a name in one directory, which ends in a slash; its hwcaps subdirectories are left
/// out. `minor` is the release 2.*minor* of the loader; without it, what not all releases agree
/// on ends the source.
pub(crate) fn look(
    fs: &dyn FileSystem,
    dir: &BStr,
    name: &BStr,
    host: &Ident,
    minor: Option<u16>,
) -> Look {
    let candidate = BString::from([dir.as_bytes(), name.as_bytes()].concat());
    match fs.open(candidate.as_ref()) {
        Ok(file) => match fitness(&file, host) {
            Fitness::Good => Look::Found(file),
            Fitness::PassedOver => Look::PassedOver,
            Fitness::Refused(_) => Look::Refused,
        },
        Err(Errno::NOENT) => Look::Absent,
        Err(Errno::ACCES) => Look::Denied,
        // A directory that is not there is passed over whatever the errno was.
        Err(errno) if goes_on(errno, minor) || fs.stat(dir) != Ok(FileKind::Directory) => {
            Look::Absent
        }
        Err(errno) => Look::EndsSource(errno),
    }
}

/// Whether the errno that the last candidate in a directory left lets `open_path` (glibc
/// `elf/dl-load.c`) go on to the next directory. `ENOTDIR` does so from 2.39 on.
pub(crate) fn goes_on(errno: Errno, minor: Option<u16>) -> bool {
    match errno {
        Errno::NOENT | Errno::ACCES => true,
        Errno::NOTDIR => minor.is_some_and(|minor| minor >= NOTDIR_GOES_ON),
        _ => false,
    }
}

/// The release 2.*minor* from which `ENOTDIR` no longer ends the search of a path.
const NOTDIR_GOES_ON: u16 = 39;
