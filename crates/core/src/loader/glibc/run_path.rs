//! An object's own run path, and one probe along it, independent of any process.
//!
//! The model of a start walks directories in [`super::open_path`], with the status that the
//! process has for each. Strategies and the index need results that hold in every process. Both
//! share the rules of this module: the run path that counts, the directory of an element, the
//! meaning of one candidate, and the errnos that end a search source.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::dirs::directory_name;
use super::verify::{Verdict, fitness};
use crate::elf::{Ident, ObjectView};
use crate::fs::{Errno, FileKind, FileSystem, OpenedFile};
use crate::search::dst::{self, Tokens};
use crate::search::order::Requester;

/// The run path of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunPath<'a> {
    /// The string, which is not empty.
    pub(crate) value: &'a BStr,
    /// The object.
    pub(crate) requester: Requester,
}

impl<'a> RunPath<'a> {
    /// Returns the run path that counts. An empty one is ignored (`decompose_rpath`).
    pub(crate) fn of(view: &'a ObjectView) -> Option<Self> {
        let value = view.dynamic.as_ref()?.run_path()?;
        (!value.is_empty()).then(|| Self { value: value.as_ref(), requester: Requester::of(view) })
    }

    /// Returns true for `DT_RPATH`, which the objects loaded by this one inherit.
    pub(crate) fn is_rpath(&self) -> bool {
        self.requester.has_rpath
    }
}

/// Returns the directory of an element of a run path, with a slash at its end, if it is the same
/// in every process. `origin` is the object's `$ORIGIN`. Relative elements and those with `$LIB`
/// or `$PLATFORM` depend on the process. So does the root directory: up to glibc 2.37 it counts as
/// absent after the first miss in it (bug 30435).
pub(crate) fn fixed_dir(element: &BStr, origin: &BStr) -> Option<BString> {
    let name = directory_name(element, &fixed_tokens(origin))?;
    (is_fixed(&name) && name != "/").then_some(name)
}

/// Expands the DSTs of a path. Returns `None` if it does not name the same file in every process.
pub(crate) fn fixed_path(path: &BStr, origin: &BStr) -> Option<BString> {
    dst::expand(path, &fixed_tokens(origin)).filter(is_fixed)
}

/// Returns tokens that mark a replaced `$LIB` with a NUL, which no path contains.
fn fixed_tokens(origin: &BStr) -> Tokens<'_> {
    Tokens { origin: Some(origin), lib: BStr::new(b"\0"), platform: None, secure: None }
}

fn is_fixed(path: &BString) -> bool {
    path.starts_with(b"/") && !path.contains(&0)
}

/// The effect of one candidate on a search.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// The loader loads this file.
    Found(Arc<OpenedFile>),
    /// The file does not exist. The search continues.
    Absent,
    /// The file is of another class or machine. The search continues.
    PassedOver,
    /// This user may not open the file (`EACCES`). The search continues.
    Denied,
    /// The loader skips the rest of the search source.
    EndsSource(Errno),
    /// The loader raises an error.
    Refused,
}

/// Opens a name in one directory, but not in its hwcaps subdirectories. `dir` ends in a slash.
/// `minor` is the release 2.*minor* of the loader. Without it, an errno that ends the source in any
/// release ends it here.
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
            Verdict::Good => Look::Found(file),
            // `open_verify` sets `ENOENT` for a file of another class or machine, so that the
            // search continues.
            Verdict::PassedOver(_) => Look::PassedOver,
            Verdict::Refused(_) => Look::Refused,
        },
        // `ENOENT` and `EACCES` need no `stat`: the search continues whether the directory exists
        // or not.
        Err(Errno::NOENT) => Look::Absent,
        Err(Errno::ACCES) => Look::Denied,
        // `open_path` skips an absent directory, whatever the errno is.
        Err(errno) if continues_after(errno, minor) || fs.stat(dir) != Ok(FileKind::Directory) => {
            Look::Absent
        }
        // The directory exists. `ELOOP`, `ENAMETOOLONG` or `EIO` then ends the source, not the
        // whole search.
        Err(errno) => Look::EndsSource(errno),
    }
}

/// Returns true if `open_path` (glibc `elf/dl-load.c`) continues with the next directory after
/// the last candidate of a directory left this errno. `ENOTDIR` ends the source up to 2.38.
pub(crate) fn continues_after(errno: Errno, minor: Option<u16>) -> bool {
    match errno {
        Errno::NOENT | Errno::ACCES => true,
        Errno::NOTDIR => minor.is_some_and(|minor| minor >= NOTDIR_CONTINUES),
        _ => false,
    }
}

/// The first release 2.*minor* whose `open_path` continues after `ENOTDIR`.
const NOTDIR_CONTINUES: u16 = 39;
