//! The names of directories that may stand in `LD_LIBRARY_PATH`.

use bstr::{BStr, BString, ByteSlice};

use super::search::{goes_by, is_readable};
use crate::elf::Ident;
use crate::fs::{FileKind, FileSystem};
use crate::index::hash::NameHash;
use crate::loader::glibc::{Verdict, fitness};
use crate::path;
use crate::search::hwcaps::arch::Arch;

/// Returns the hash of a name in a directory that `LD_LIBRARY_PATH` may contain. Returns `None` for
/// a hwcaps subdirectory, because the directory's fingerprint does not cover its contents.
///
/// The name is certain if it is the name of a readable library for the machine, and not a link out
/// of the directory.
#[must_use]
pub fn name_in(fs: &dyn FileSystem, dir: &BStr, name: &BStr, ident: &Ident) -> Option<NameHash> {
    let is_word = name == "glibc-hwcaps" || Arch::of(ident).legacy_names().any(|word| name == word);
    let path = BString::from([dir.as_bytes(), b"/", name].concat());
    let kind = fs.stat(path.as_ref());
    if is_word && kind != Ok(FileKind::File) {
        return None;
    }
    let in_dir = || {
        let (dir, path) = (fs.canonicalize(dir), fs.canonicalize(path.as_ref()));
        matches!((dir, path), (Ok(dir), Ok(path)) if path::dir(&path) == dir)
    };
    // No other file can be needed, and the check has to open the file.
    let certain = kind == Ok(FileKind::File)
        && name.contains_str(".so")
        && name.to_str().is_ok()
        && fs.open(path.as_ref()).is_ok_and(|file| {
            fitness(&file, ident) == Verdict::Good
                && goes_by(fs, &file, path.as_ref())
                && is_readable(&file)
        })
        && in_dir();
    Some(NameHash::of(name, certain))
}
