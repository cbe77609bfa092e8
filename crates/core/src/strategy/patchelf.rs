//! `--compat patchelf`: writes the same descriptor for an object as `patchelf
//! --build-resolution-cache` (0.19.3).
//!
//! Each element of the run path becomes a hint if it is empty or relative, contains a `$`, is not a
//! directory or has a `glibc-hwcaps` subdirectory. Any other element gives an exact answer if it has a
//! readable file of the name. `docs/note-format.md` lists the differences from the plain search.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};

use super::note;
use crate::elf::ObjectView;
use crate::fs::{FileKind, FileSystem};

/// Makes the descriptor. Returns `None` if patchelf writes no note.
#[must_use]
pub fn descriptor(fs: &dyn FileSystem, view: &ObjectView) -> Option<Vec<u8>> {
    let path = view.dynamic.as_ref()?.run_path()?;
    if path.is_empty() {
        return None;
    }
    // These are searched for, and a list can contain them.
    let is_recorded = |it: &&BStr| !it.is_empty() && !it.contains(&b'/') && !it.contains(&b':');
    let needed: Vec<&BStr> = view.needed().filter(is_recorded).collect();
    let mut records: BTreeMap<&BStr, Vec<Vec<u8>>> = BTreeMap::new();
    for dir in path.split(|&byte| byte == b':') {
        let is_hint = is_hint(fs, dir);
        for &name in &needed {
            let file = [dir, b"/", name].concat();
            // patchelf checks that the file can be read, not that it is a library.
            if is_hint || fs.open(file.as_bstr()).is_ok() {
                let element =
                    if is_hint { [b"?", dir].concat() } else { [b"=", &file[..]].concat() };
                records.entry(name).or_default().push(element);
            }
        }
    }
    (!records.is_empty()).then(|| note::write(Vec::new(), records))
}

/// Returns true if the loader must search the directory itself.
fn is_hint(fs: &dyn FileSystem, dir: &[u8]) -> bool {
    if dir.first() != Some(&b'/') || dir.contains(&b'$') {
        return true;
    }
    let has_hwcaps = || {
        let path: BString = [dir, b"/glibc-hwcaps"].concat().into();
        fs.stat(path.as_ref()).is_ok()
    };
    fs.stat(dir.as_bstr()) != Ok(FileKind::Directory) || has_hwcaps()
}
