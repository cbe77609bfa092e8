//! hwcaps subdirectories, seen from any CPU.

use bstr::{BStr, BString};

use super::FIRST_WITHOUT_LEGACY;
use super::arch::Arch;
use crate::elf::Ident;
use crate::fs::{Errno, FileKind, FileSystem};

/// Which hwcaps subdirectories a search directory has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variants {
    /// Existing `glibc-hwcaps/<level>/` of any level known for the machine.
    levels: Vec<BString>,
    /// A legacy subdirectory, or one that cannot be told, makes every answer open.
    open: bool,
}

impl Variants {
    /// Looks at a directory; `dir` ends in a slash. `minor` is the release 2.*minor* of the
    /// loader; without it, those of every release count.
    pub(crate) fn of(fs: &dyn FileSystem, dir: &BStr, ident: &Ident, minor: Option<u16>) -> Self {
        let arch = Arch::of(ident);
        let mut variants = Self::default();
        let mut is_there = |name: &str| match fs.stat(join(dir, name).as_ref()) {
            Ok(FileKind::Directory) => true,
            Ok(_) | Err(Errno::NOENT) => false,
            Err(_) => {
                variants.open = true;
                false
            }
        };
        let has_legacy = minor.is_none_or(|minor| minor < FIRST_WITHOUT_LEGACY);
        let legacy = has_legacy && arch.legacy_names().any(&mut is_there);
        let has_levels = !arch.levels().is_empty() && is_there("glibc-hwcaps");
        variants.open |= legacy;
        if has_levels {
            let levels = arch.levels().iter();
            variants.levels =
                levels.map(|level| join(dir, &format!("glibc-hwcaps/{}/", level.name))).collect();
        }
        variants
    }

    /// The subdirectories that some CPU searches, without trailing slashes, absent ones among them;
    /// `None` if there are others.
    pub(crate) fn subdirectories(&self) -> Option<impl Iterator<Item = &BStr>> {
        let names = self.levels.iter().map(|level| BStr::new(&level[..level.len() - 1]));
        (!self.open).then_some(names)
    }

    /// True where there is a hwcaps subdirectory.
    pub(crate) fn any(&self) -> bool {
        self.open || !self.levels.is_empty()
    }

    /// True where some CPU might find the name in a subdirectory.
    pub(crate) fn may_have(&self, fs: &dyn FileSystem, name: &BStr) -> bool {
        self.open
            || self.levels.iter().any(|level| {
                let mut path = level.clone();
                path.extend_from_slice(name);
                fs.stat(path.as_ref()) != Err(Errno::NOENT)
            })
    }
}

fn join(dir: &BStr, name: &str) -> BString {
    let mut path = dir.to_owned();
    path.extend_from_slice(name.as_bytes());
    path
}
