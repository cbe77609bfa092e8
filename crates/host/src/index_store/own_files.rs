//! Index files and the files beside them, which are found in a tree like any other ELF file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becalm_core::index::{begins_as_index, extent, split};
use bstr::BStr;

use super::path_of;

/// Bytes from the beginning of a file that hold its ELF header and program headers.
const HEAD: u64 = 4096;

/// Returns true if the file is an index, damaged or not; also if only its first part is left, with
/// the ELF header.
#[must_use]
pub fn is_index(path: &Path) -> bool {
    path.is_file() && begins_or_splits(path).unwrap_or(false)
}

/// Returns true if the file begins as an index does, or if it is a module with a table. A file whose
/// first bytes are neither is not read further, however long it is.
fn begins_or_splits(path: &Path) -> Option<bool> {
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(HEAD).read_to_end(&mut bytes).ok()?;
    if begins_as_index(&bytes) {
        return Some(true);
    }
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let rest = extent(&bytes, length)?.saturating_sub(bytes.len()) as u64;
    file.take(rest).read_to_end(&mut bytes).ok()?;
    Some(split(&bytes).is_ok())
}

/// Returns true if a file or directory belongs to root and no other user may write to it
/// (`same_in_image` of `crates/audit/module/condition.c`).
pub(super) fn is_of_root(path: &BStr) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    let facts = path_of(path).metadata();
    facts.is_ok_and(|facts| facts.uid() == 0 && facts.mode() & OTHERS_WRITE == 0)
}

/// Returns true for a file in the directory `INDEX.d` beside an index: a module for another
/// machine, which is not an object of the tree.
pub(super) fn is_beside_index(path: &Path) -> bool {
    let dir = path.parent();
    let index = dir.filter(|dir| dir.extension().is_some_and(|end| end == "d"));
    index.is_some_and(|dir| is_index(&dir.with_extension("")))
}
