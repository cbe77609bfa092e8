//! The hwcaps subdirectories of a search directory, for any CPU.

use bstr::{BStr, BString};

use super::FIRST_WITHOUT_LEGACY;
use super::arch::Arch;
use crate::elf::Ident;
use crate::fs::{Errno, FileKind, FileSystem};
use crate::path;

/// The hwcaps subdirectories of one search directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variants {
    /// `glibc-hwcaps/<level>/` for each level of the machine, if `glibc-hwcaps` exists.
    levels: Vec<BString>,
    /// True if there is a legacy subdirectory, or if a `stat` failed. Any answer is possible then.
    undecided: bool,
}

impl Variants {
    /// Reads a directory; `dir` ends in a slash. `minor` is the release 2.*minor* of the loader.
    /// Without it, the subdirectories of every release count.
    pub(crate) fn of(fs: &dyn FileSystem, dir: &BStr, ident: &Ident, minor: Option<u16>) -> Self {
        let arch = Arch::of(ident);
        let mut variants = Self::default();
        let mut exists = |name: &str| match fs.stat(path::join(dir, name.as_bytes()).as_ref()) {
            Ok(FileKind::Directory) => true,
            // No other errno proves that the directory is absent: after `EACCES`, another user may
            // find it.
            Ok(_) | Err(Errno::NOENT) => false,
            Err(_) => {
                variants.undecided = true;
                false
            }
        };
        let has_legacy = minor.is_none_or(|minor| minor < FIRST_WITHOUT_LEGACY);
        // One `stat` for each first component is enough: any combination begins with one of them.
        let legacy = has_legacy && arch.legacy_names().any(&mut exists);
        let has_levels = !arch.levels().is_empty() && exists("glibc-hwcaps");
        variants.undecided |= legacy;
        if has_levels {
            let levels = arch.levels().iter();
            let path = |name: &str| path::join(dir, format!("glibc-hwcaps/{name}/").as_bytes());
            variants.levels = levels.map(|(name, _)| path(name)).collect();
        }
        variants
    }

    /// Returns the subdirectories that some CPU searches, without trailing slashes. Some of them may
    /// be absent. Returns `None` if the list is not complete.
    pub(crate) fn subdirectories(&self) -> Option<impl Iterator<Item = &BStr>> {
        let names = self.levels.iter().map(|level| BStr::new(&level[..level.len() - 1]));
        (!self.undecided).then_some(names)
    }

    /// Returns true if there may be a hwcaps subdirectory.
    pub(crate) fn any(&self) -> bool {
        self.undecided || !self.levels.is_empty()
    }

    /// Returns true if some CPU may find the name in a subdirectory.
    pub(crate) fn may_have(&self, fs: &dyn FileSystem, name: &BStr) -> bool {
        self.undecided
            || self
                .levels
                .iter()
                .any(|level| fs.stat(path::join(level, name).as_ref()) != Err(Errno::NOENT))
    }
}
