//! Conversions between paths, arguments and bytes; on Unix these are the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) use becalm_host::path::real;
pub use becalm_host::path::{path_bytes, path_of};
use bstr::{BString, ByteSlice};

/// Returns the text of a path, for the context of an error.
pub(crate) fn at(path: &Path) -> impl FnOnce() -> String {
    || path.display().to_string()
}

/// Returns the bytes of an argument.
pub fn bytes(text: &OsString) -> BString {
    // On Unix an OsString is its bytes.
    <[u8]>::from_os_str(text).unwrap_or_default().into()
}

/// Returns the directories of `--dirs`: each argument is a list as in `LD_LIBRARY_PATH`. Elements
/// that depend on the current directory are left out ([`relative_dirs_of`]).
pub fn dirs_of(lists: impl IntoIterator<Item: AsRef<OsStr>>) -> Vec<PathBuf> {
    elements_of(lists, b":;").filter(|dir| dir.is_absolute()).collect()
}

/// Returns the elements of `--dirs` that are empty or relative paths; an empty one is the current
/// directory.
pub fn relative_dirs_of(lists: impl IntoIterator<Item: AsRef<OsStr>>) -> Vec<PathBuf> {
    elements_of(lists, b":;").filter(|dir| !dir.is_absolute()).collect()
}

/// Returns the directories of `--path-dirs`: relative ones are those of this process. Empty elements
/// are left out.
pub fn named_dirs_of(lists: impl IntoIterator<Item: AsRef<OsStr>>) -> Vec<PathBuf> {
    elements_of(lists, b":").filter_map(|dir| std::path::absolute(dir).ok()).collect()
}

/// Splits lists. An empty list has no element, as an empty `LD_LIBRARY_PATH`.
fn elements_of(
    lists: impl IntoIterator<Item: AsRef<OsStr>>,
    separators: &[u8],
) -> impl Iterator<Item = PathBuf> {
    let mut elements = Vec::new();
    for list in lists {
        let list = list.as_ref().as_bytes();
        if !list.is_empty() {
            elements.extend(list.split(|it| separators.contains(it)).map(path_of));
        }
    }
    elements.into_iter()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn relative_directories_that_the_user_names_are_those_of_the_current_one() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(named_dirs_of(&["/a:lib::"]), [PathBuf::from("/a"), here.join("lib")]);
    }

    #[test]
    fn a_list_is_split_into_directories_and_what_depends_on_the_current_one() {
        // glibc takes a semicolon as well (fillin_rpath of elf/dl-load.c).
        let lists = ["/a:lib::.", "", "/b;/c"];
        assert_eq!(dirs_of(&lists), ["/a", "/b", "/c"].map(Path::new));
        assert_eq!(relative_dirs_of(&lists), ["lib", "", "."].map(Path::new));
    }
}
