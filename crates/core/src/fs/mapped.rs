//! A file system in which a tree has its final path (`--prefix-map BUILD=FINAL`).
//!
//! A package is built in one directory and installed in another later. Its objects have the final
//! path in their strings. [`MappedFs`] shows the package at its final path, so that a strategy
//! resolves these strings and writes final paths.

use std::str::FromStr;
use std::sync::Arc;

use bstr::{BStr, BString};

use super::{Errno, FileKind, FileSystem, OpenedFile};

/// The present and the final path of a tree. Both are absolute and have no slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The present path.
    pub build: BString,
    /// The final path.
    pub end: BString,
}

impl FromStr for Mapping {
    type Err = &'static str;

    /// Parses `BUILD=FINAL` with two absolute paths.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let dir = |path: &str| -> Option<BString> {
            let end = path.bytes().rposition(|byte| byte != b'/')? + 1;
            path.starts_with('/').then(|| path[..end].into())
        };
        let dirs = text.split_once('=').and_then(|(build, end)| Some((dir(build)?, dir(end)?)));
        let (build, end) = dirs.ok_or("not BUILD=FINAL, both absolute paths")?;
        Ok(Self { build, end })
    }
}

/// A file system with trees at their final paths. Paths outside of them are unchanged.
pub struct MappedFs<'a> {
    base: &'a dyn FileSystem,
    mappings: Vec<Mapping>,
}

impl<'a> MappedFs<'a> {
    /// Maps these trees. If a path is in two of them, the first counts.
    #[must_use]
    pub fn new(base: &'a dyn FileSystem, mappings: Vec<Mapping>) -> Self {
        Self { base, mappings }
    }

    /// Returns the present path, by which a file is read and written.
    #[must_use]
    pub fn real(&self, path: &BStr) -> BString {
        replaced(path, self.mappings.iter().map(|map| (&map.end, &map.build)))
    }

    /// Returns the final path.
    #[must_use]
    pub fn planned(&self, path: &BStr) -> BString {
        replaced(path, self.mappings.iter().map(|map| (&map.build, &map.end)))
    }
}

fn replaced<'m>(
    path: &BStr,
    mut pairs: impl Iterator<Item = (&'m BString, &'m BString)>,
) -> BString {
    let renamed = pairs.find_map(|(from, to)| {
        let rest = path.strip_prefix(from.as_slice())?;
        let is_below = rest.is_empty() || rest.starts_with(b"/");
        is_below.then(|| BString::from([to.as_slice(), rest].concat()))
    });
    renamed.unwrap_or_else(|| path.to_owned())
}

impl FileSystem for MappedFs<'_> {
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno> {
        self.base.open(self.real(path).as_ref())
    }

    fn stat(&self, path: &BStr) -> Result<FileKind, Errno> {
        self.base.stat(self.real(path).as_ref())
    }

    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno> {
        self.base.read(self.real(path).as_ref())
    }

    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno> {
        let real = self.base.canonicalize(self.real(path).as_ref())?;
        Ok(self.planned(real.as_ref()))
    }

    fn read_link(&self, path: &BStr) -> Result<BString, Errno> {
        let target = self.base.read_link(self.real(path).as_ref())?;
        Ok(self.planned(target.as_ref()))
    }

    fn current_dir(&self) -> BString {
        self.planned(self.base.current_dir().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn a_tree_is_found_at_its_final_path() {
        let base = MemFs::new().file("/build/out/lib/a", "x").file("/build/outer/b", "y");
        let map = Mapping::from_str("/build/out/=/nix/store/abc-x").expect("a mapping");
        let fs = MappedFs::new(&base, vec![map]);
        assert!(fs.open("/nix/store/abc-x/lib/a".into()).is_ok());
        assert_eq!(fs.canonicalize("/build/out/lib/a".into()).unwrap(), "/nix/store/abc-x/lib/a");
        assert_eq!(fs.real("/nix/store/abc-x/lib/a".into()), "/build/out/lib/a");
        assert_eq!(fs.planned("/build/outer/b".into()), "/build/outer/b");
        assert!(Mapping::from_str("build=/x").is_err());
        assert!(Mapping::from_str("/build").is_err());
    }
}
