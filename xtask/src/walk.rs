//! Lists what is below a folder.

use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// Returns everything below a folder, sorted by path, with the types of links themselves.
pub(crate) fn walk(root: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            left.extend(kind.is_dir().then(|| entry.path()));
            found.push((entry.path(), kind));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
