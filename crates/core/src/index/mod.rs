//! The index: for each object of a store, its needed strings and the paths the loader
//! would find, as one table that the audit module reads.
//!
//! [`build`] answers the questions, [`encode`] writes the table, [`embed`] puts it into
//! the module, [`Table`] reads it again for `verify` and `--update`. The format is in
//! `docs/index-format.md`; the module's own reader is `crates/lib/audit/table.c`.

pub mod answers;
pub mod bound;
pub mod build;
mod embed;
mod encode;
pub mod hash;
mod header;
mod layout;
mod origins;
pub mod paths;
mod ranged;
mod table;
mod table_error;
#[cfg(test)]
mod tests;
pub mod tls;

use bstr::{BStr, BString, ByteSlice};
use thiserror::Error;

use crate::elf::{Class, Endian, Ident};
use crate::facts::GlibcVersion;

pub use self::table_error::TableError;
pub use embed::{EmbedError, embed, extent, module_is_whole, split};
pub use encode::encode;
pub use ranged::{Ranged, RangedError, ReadAt, Start};
pub use table::Table;

/// All that a table says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The objects, in no order that matters; each path once.
    pub objects: Vec<Object>,
    /// The conditions of answers; edges, roots and directories name them by position.
    pub conditions: Vec<Condition>,
    /// The guards of the stores' own directories: while they hold, no package has come or
    /// gone, and the module does not look whether an answer is there.
    pub roots: Vec<u32>,
    /// Directories, each path once.
    pub directories: Vec<Directory>,
    /// The directories of every `DT_RPATH`, each path once.
    pub search_dirs: Vec<SearchDir>,
    /// The folders that `--update` compares with the stores, each path once.
    pub folders: Vec<Folder>,
    /// Digest of the conditions beside files: the facts of the loader, the stores, becalm itself.
    /// If another index would have another digest, nothing of this one is kept.
    pub settings: u32,
    /// The loader that the answers are for; `None` in an index of version 1.
    pub loader: Option<Loader>,
    /// The programs, each path once.
    pub programs: Vec<Program>,
    /// The bindings of programs.
    pub bound: bound::Bound,
    /// The paths below the packages of stores, if they are indexed.
    pub paths: Option<paths::Paths>,
}

/// The facts of the loader that answers rest on, as [`crate::facts::LoaderFacts`] has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loader {
    /// The interpreters with these facts, `:` between them.
    pub paths: BString,
    /// Its release.
    pub release: GlibcVersion,
    /// The loader cache.
    pub cache_path: Option<BString>,
    /// Its search directories.
    pub system_dirs: Vec<BString>,
    /// Its hwcaps subdirectories on the machine that indexed.
    pub hwcaps: Vec<BString>,
    /// `$PLATFORM` on that machine.
    pub platform: Option<BString>,
    /// `$LIB`.
    pub lib: BString,
}

/// A program, under its real path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The path.
    pub path: BString,
    /// `PT_INTERP`.
    pub interpreter: BString,
    /// The value of `glibc.rtld.optional_static_tls` that its start needs; 0: the default is
    /// enough. See [`tls`].
    pub static_tls: u32,
    /// It does not start under any audit module ([`tls::StaticTls::impossible`]).
    pub no_start: bool,
    /// The objects that its start loads in an empty environment, as the loader names them, in the
    /// order of the link map: the libraries, the loader among them.
    pub load_order: Vec<BString>,
    /// [`Fingerprint::digest`] of the file when it was read; 0 if that is not known.
    pub seen: u32,
}

/// An object that asks, under one path it is loaded by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The path, as the loader names it; empty for the common object, which stands for
    /// every object without a run path.
    pub path: BString,
    /// No component of the path is a link.
    pub canonical: bool,
    /// Its whole run path is immutable and was searched, no other object's `DT_RPATH` has a
    /// say, and the loader cache and the system directories follow.
    pub closed: bool,
    /// The run path that the answers rest on, as [`hash::run_path_digest`] gives it.
    pub run_path: u32,
    /// It names an interpreter.
    pub is_program: bool,
    /// [`Fingerprint::digest`] of the file when it was read; 0 where that is not known.
    pub seen: u32,
    /// Positions in [`Index::folders`]: the run path, in order.
    pub searched: Vec<u32>,
    /// Positions in [`Index::search_dirs`]: the directories of its `DT_RPATH`, in order. `None` if
    /// it has none, or not all of them are known.
    pub rpath: Option<Vec<u32>>,
    /// Questions left to the loader, by [`build::Deferred`]; 255 stands for that many and more.
    pub deferred: [u8; 8],
    /// The answers.
    pub edges: Vec<Edge>,
}

/// One answer. The needed string is what follows the last slash of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The path: search directory, slash, needed string.
    pub path: BString,
    /// Found along `DT_RPATH`, which comes before `LD_LIBRARY_PATH`.
    pub before_library_path: bool,
    /// Of the common object: no directory of any indexed run path has the name.
    pub outside: bool,
    /// The file lies where it may go away: the module looks before it answers.
    pub look: bool,
    /// Positions in [`Index::conditions`], ascending; all must hold.
    pub conditions: Vec<u32>,
}

impl Edge {
    /// The needed string.
    #[must_use]
    pub fn needed(&self) -> &BStr {
        let name = self.path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        self.path[name..].as_bstr()
    }
}

/// A condition of an answer beside the immutable stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The directory is as it was.
    Directory(BString, Fingerprint),
    /// `stat` of the path gives `ENOENT`.
    Absent(BString),
    /// The file is as it was.
    File(BString, Fingerprint),
    /// The process's loader goes by one of these paths, `:` between them.
    Loader(BString),
    /// A directory of a package that is not in its store: it cannot be there while the roots
    /// hold, and is looked for otherwise.
    AbsentPackage(BString),
    /// A directory of an image: it belongs to root, nobody else may write it, and its time of
    /// modification is as it was. Device, inode and time of status change are another with each copy
    /// of the image.
    ImageDirectory(BString, Fingerprint),
    /// As [`Condition::ImageDirectory`], a file; its length is as it was too.
    ImageFile(BString, Fingerprint),
}

impl Condition {
    /// The path it is about.
    #[must_use]
    pub fn path(&self) -> &BStr {
        match self {
            Condition::Directory(path, _)
            | Condition::Absent(path)
            | Condition::File(path, _)
            | Condition::Loader(path)
            | Condition::AbsentPackage(path)
            | Condition::ImageDirectory(path, _)
            | Condition::ImageFile(path, _) => path.as_ref(),
        }
    }

    /// The condition as that of an image. Others than those on fingerprints stay, and so does a
    /// fingerprint that never holds.
    #[must_use]
    pub fn of_image(self) -> Self {
        match self {
            Condition::Directory(path, known) if known != Fingerprint::default() => {
                Condition::ImageDirectory(path, known.of_image())
            }
            Condition::File(path, known) => Condition::ImageFile(path, known.of_image()),
            other => other,
        }
    }

    /// True for a condition of an image.
    #[must_use]
    pub fn is_of_image(&self) -> bool {
        matches!(self, Condition::ImageDirectory(..) | Condition::ImageFile(..))
    }
}

/// The fields of `statx` of a directory or file by which a change is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Device number: major in the upper, minor in the lower 32 bits.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Length in bytes; of a directory not compared.
    pub size: u64,
    /// Time of the last modification.
    pub mtime: Time,
    /// Time of the last status change.
    pub ctime: Time,
}

/// A point in time of the real-time clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

impl Fingerprint {
    /// A number that tells one state of a file from another; above [`Folder::ABSENT`].
    #[must_use]
    pub fn digest(&self) -> u32 {
        let Self { dev, ino, size, mtime, ctime } = self;
        let times = [mtime.sec, i64::from(mtime.nsec), ctime.sec, i64::from(ctime.nsec)];
        let words = [*dev, *ino, *size].into_iter().chain(times.map(i64::cast_unsigned));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        hash::low(0, &bytes).max(Folder::ABSENT + 1)
    }

    /// Returns the parts that are the same in every copy of an image: length and time of
    /// modification.
    #[must_use]
    pub fn of_image(self) -> Self {
        Self { size: self.size, mtime: self.mtime, ..Self::default() }
    }

    /// False where a later change could leave the same stamp: the last one lies within the
    /// grain of the clock before `now`. That is a tenth of a second where the file system
    /// keeps fractions (the kernel's own clock ticks every 10 ms at most), two seconds where
    /// it seems to keep none.
    #[must_use]
    pub fn is_settled(&self, now: Time) -> bool {
        let settled = |time: Time| {
            let grain = if time.nsec == 0 { 2_000_000_000 } else { 100_000_000 };
            let age = (i128::from(now.sec) - i128::from(time.sec)) * 1_000_000_000
                + i128::from(now.nsec)
                - i128::from(time.nsec);
            age > grain
        };
        settled(self.mtime) && settled(self.ctime)
    }
}

/// A directory as it was indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The path, as `LD_LIBRARY_PATH` names it, without a trailing slash.
    pub path: BString,
    /// Position of its guard ([`Condition::Directory`]) in [`Index::conditions`].
    pub condition: u32,
    /// The names in it, where it may stand in `LD_LIBRARY_PATH`; ascending. `None` where
    /// there are none to go by.
    pub names: Option<Vec<hash::NameHash>>,
}

/// A directory that a `DT_RPATH` names, with all its names: what it answers to any object that is
/// loaded below the one that has the `DT_RPATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchDir {
    /// The path, as the run path names it, without a trailing slash.
    pub path: BString,
    /// Positions in [`Index::conditions`]; all must hold.
    pub conditions: Vec<u32>,
    /// Its files may go away while the directory stays as it is: the module looks first.
    pub look: bool,
    /// The names, ascending. Certain is one that answers whoever asks for it.
    pub names: Vec<hash::NameHash>,
}

/// A directory that was listed for objects, or that the search of one may look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The path, as the run path or the walk names it, without a trailing slash.
    pub path: BString,
    /// [`Fingerprint::digest`] with no length; [`Self::ABSENT`], or [`Self::UNKNOWN`].
    pub digest: u32,
    /// It was listed for objects.
    pub walked: bool,
}

impl Folder {
    /// It changed while it was read: what it was like cannot be told.
    pub const UNKNOWN: u32 = 0;
    /// It was not there.
    pub const ABSENT: u32 = 1;
}

/// The machine a table is for: it is written in that machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// `e_machine`.
    pub machine: u16,
    /// `EI_CLASS`.
    pub class: Class,
    /// `EI_DATA`.
    pub endian: Endian,
}

impl Target {
    /// The machine of an object.
    #[must_use]
    pub fn of(ident: &Ident) -> Self {
        Self { machine: ident.machine, class: ident.class, endian: ident.endian }
    }
}

/// Why an index cannot be written as a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// More than the format's 32-bit offsets (24-bit for sets of guards) reach.
    #[error("the index is too large: {0}")]
    TooLarge(&'static str),
    /// A path longer than 65,535 bytes.
    #[error("{0}...: path too long for an index")]
    PathTooLong(BString),
    /// An edge, root or directory names a guard that is not there.
    #[error("the index names guard {0}, which it does not have")]
    NoSuchGuard(u32),
    /// An object names a folder that is not there.
    #[error("the index names folder {0}, which it does not have")]
    NoSuchFolder(u32),
}
