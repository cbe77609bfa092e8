//! hwcaps subdirectories, seen from any CPU.

use bstr::{BStr, BString, ByteSlice};

use super::search::is_library;
use crate::elf::Ident;
use crate::fs::{Errno, FileKind, FileSystem};
use crate::index::hash::NameHash;
use crate::loader::glibc::dirname;
use crate::search::hwcaps::arch::Arch;

/// Words of the legacy subdirectories that are no capability of [`Arch::important`]:
/// platforms of any release from 2.31 to 2.36, and `tls`. What a combination starts with is
/// one of them, so a directory that has none has no legacy subdirectory at all.
const LEGACY: &[&str] = &[
    "tls", "haswell", "xeon_phi", "i386", "i486", "i586", "i686", "aarch64", "v5l", "v6l", "v7l",
    "v8l", "z900", "z990", "z9-109", "z10", "z196", "zEC12", "z13", "z14", "z15", "z16", "z17",
    "power4", "power5", "power6", "power7", "power8", "power9", "power10", "power11", "ppc970",
];

/// Which hwcaps subdirectories a search directory has.
#[derive(Clone, Debug, Default)]
pub(super) struct Variants {
    /// Existing `glibc-hwcaps/<level>/` of any level known for the machine.
    levels: Vec<BString>,
    /// A legacy subdirectory, or one that cannot be told, makes every answer open.
    pub(super) open: bool,
}

impl Variants {
    /// Looks at a directory; `dir` ends in a slash.
    pub(super) fn of(fs: &dyn FileSystem, dir: &BStr, ident: &Ident) -> Self {
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
        let important = arch.important().iter().map(|&(_, name)| name);
        let legacy = LEGACY.iter().copied().chain(important).any(&mut is_there);
        let has_levels = is_there("glibc-hwcaps");
        variants.open |= legacy;
        if has_levels {
            let levels = arch.levels().iter();
            variants.levels =
                levels.map(|level| join(dir, &format!("glibc-hwcaps/{}/", level.name))).collect();
        }
        variants
    }

    /// True where there is a hwcaps subdirectory.
    pub(super) fn any(&self) -> bool {
        self.open || !self.levels.is_empty()
    }

    /// True where some CPU might find the name in a subdirectory.
    pub(super) fn may_have(&self, fs: &dyn FileSystem, name: &BStr) -> bool {
        self.open
            || self.levels.iter().any(|level| {
                let mut path = level.clone();
                path.extend_from_slice(name);
                fs.stat(path.as_ref()) != Err(Errno::NOENT)
            })
    }
}

/// A name of a directory that may stand in `LD_LIBRARY_PATH`. `None` where it is a hwcaps
/// subdirectory, whose contents the directory's stamp does not cover.
///
/// The name is certain to answer where it is a readable object of the machine that goes by that
/// name, and no link that leads out of the directory.
#[must_use]
pub fn name_in(fs: &dyn FileSystem, dir: &BStr, name: &BStr, ident: &Ident) -> Option<NameHash> {
    let mut important = Arch::of(ident).important().iter().map(|&(_, word)| word);
    let is_word = name == "glibc-hwcaps"
        || LEGACY.iter().any(|word| name == *word)
        || important.any(|word| name == word);
    let path = join(join(dir, "/").as_ref(), &name.to_str_lossy());
    let kind = fs.stat(path.as_ref());
    if is_word && kind != Ok(FileKind::File) {
        return None;
    }
    let in_dir = || {
        let (dir, path) = (fs.canonicalize(dir), fs.canonicalize(path.as_ref()));
        matches!((dir, path), (Ok(dir), Ok(path)) if dirname(&path) == dir)
    };
    let certain = kind == Ok(FileKind::File)
        && name.to_str().is_ok()
        && fs.open(path.as_ref()).is_ok_and(|file| is_library(fs, &file, path.as_ref(), ident))
        && in_dir();
    Some(NameHash::of(name, certain))
}

fn join(dir: &BStr, name: &str) -> BString {
    let mut path = dir.to_owned();
    path.extend_from_slice(name.as_bytes());
    path
}
