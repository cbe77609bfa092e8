//! A file system in which a tree bears the name it will have (`--prefix-map BUILD=FINAL`).
//!
//! A package is built in one place and lies in another later; its objects speak of themselves
//! by the later name. Seen through [`MappedFs`] it is already there, so that a carrier finds
//! self references and writes the names that will hold.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};

use super::{Errno, FileKind, FileSystem, OpenedFile};

/// One tree and the name it will have; both absolute, without slashes at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where the tree lies now.
    pub build: BString,
    /// Where it will lie.
    pub end: BString,
}

impl Mapping {
    /// `BUILD=FINAL`, both absolute; `None` for anything else.
    #[must_use]
    pub fn parse(text: &BStr) -> Option<Self> {
        let (build, end) = text.split_once_str("=")?;
        let dir = |path: &[u8]| -> Option<BString> {
            let end = path.iter().rposition(|&byte| byte != b'/')? + 1;
            path.starts_with(b"/").then(|| path[..end].into())
        };
        Some(Self { build: dir(build)?, end: dir(end)? })
    }
}

/// A file system with trees under the names they will have. Paths outside them are the same.
pub struct MappedFs<'a> {
    base: &'a dyn FileSystem,
    mappings: Vec<Mapping>,
}

impl<'a> MappedFs<'a> {
    /// `base` with these trees renamed; of two that hold a path, the first counts.
    #[must_use]
    pub fn new(base: &'a dyn FileSystem, mappings: Vec<Mapping>) -> Self {
        Self { base, mappings }
    }

    /// Where a path lies now: the name to read and write it by.
    #[must_use]
    pub fn real(&self, path: &BStr) -> BString {
        let pairs = self.mappings.iter().map(|map| (&map.end, &map.build));
        replaced(path, pairs)
    }

    /// The name that a path will have.
    #[must_use]
    pub fn planned(&self, path: &BStr) -> BString {
        let pairs = self.mappings.iter().map(|map| (&map.build, &map.end));
        replaced(path, pairs)
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

    fn current_dir(&self) -> BString {
        self.planned(self.base.current_dir().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn a_tree_answers_by_the_name_it_will_have() {
        let base = MemFs::new().file("/build/out/lib/a", "x").file("/build/outer/b", "y");
        let map = Mapping::parse("/build/out/=/nix/store/abc-x".into()).expect("a mapping");
        let fs = MappedFs::new(&base, vec![map]);
        assert!(fs.open("/nix/store/abc-x/lib/a".into()).is_ok());
        assert_eq!(fs.canonicalize("/build/out/lib/a".into()).unwrap(), "/nix/store/abc-x/lib/a");
        assert_eq!(fs.real("/nix/store/abc-x/lib/a".into()), "/build/out/lib/a");
        assert_eq!(fs.planned("/build/outer/b".into()), "/build/outer/b");
        assert_eq!(Mapping::parse("build=/x".into()), None);
        assert_eq!(Mapping::parse("/build".into()), None);
    }
}
