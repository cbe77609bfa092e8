//! The index: for each object of a store, its needed strings and the paths at which the loader
//! finds them. The audit module reads it as one table.
//!
//! [`build`] finds the answers, [`encode`] writes the table and [`embed`] puts it into the module.
//! [`Table`] reads it again for `verify` and `--update`. The format is in `docs/index-format.md`,
//! and the module's own reader is `crates/audit/module/table.c`.

pub mod answers;
pub mod bound;
pub mod build;
mod embed;
mod encode;
mod encoder;
pub mod hash;
mod header;
mod layout;
mod names;
mod origins;
pub mod paths;
mod ranged;
mod records;
mod table;
mod table_error;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod volume;

use std::sync::Arc;

use bstr::{BStr, BString};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::elf::{Class, Endian, Ident};
use crate::path;

pub use self::table_error::TableError;
pub use embed::{EmbedError, begins_as_index, embed, extent, module_is_whole, split};
pub use encode::encode;
pub use ranged::{Ranged, ReadAt};
pub use records::Table;
pub use tls::Start;

/// The content of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The objects in any order, each path once.
    pub objects: Vec<Object>,
    /// The conditions of the stores' own directories. While they hold, no package was added or
    /// removed, and the module does not check whether the file of an answer exists.
    pub roots: Vec<Arc<Condition>>,
    /// Directories, each path once.
    pub directories: Vec<Directory>,
    /// The directories of every `DT_RPATH`, each path once.
    pub search_dirs: Vec<SearchDir>,
    /// The folders that `--update` compares with the stores, each path once.
    pub folders: Vec<Folder>,
    /// Digest of the conditions besides files: the facts of the loader, the stores, becalm itself.
    /// `--update` keeps no part of an index whose digest differs.
    pub settings: u32,
    /// The number of seccomp filters of the process that made the index. Under more of them the
    /// module makes no call that a C library does not make.
    pub filters: u32,
    /// True if it is for starts that are told results of lookups: the module takes those of a pack also for a
    /// program that is not here.
    pub is_told: bool,
    /// The programs, each path once.
    pub programs: Vec<Program>,
    /// The bindings of programs.
    pub bound: bound::Bound,
    /// The paths below the packages of stores, if they are indexed.
    pub paths: Option<paths::Paths>,
}

impl Index {
    /// Returns the conditions, each once: those of the stores, of directories, of answers, of bindings.
    #[must_use]
    pub fn conditions(&self) -> Vec<&Arc<Condition>> {
        let of_objects = self.objects.iter().flat_map(|object| {
            let of_edges = object.edges.iter().flat_map(|edge| &edge.conditions);
            object.in_stores.iter().chain(of_edges)
        });
        let all = self.roots.iter().chain(self.directories.iter().map(|it| &it.condition));
        let all = all.chain(self.search_dirs.iter().flat_map(|it| &it.conditions));
        let all = all.chain(of_objects).chain(self.bound.objects.iter().map(|it| &it.condition));
        let mut seen = FxHashSet::default();
        all.filter(|condition| seen.insert(*condition)).collect()
    }

    /// Replaces each condition by the result of a function, which is called once for equal ones.
    pub fn map_conditions(&mut self, of: impl Fn(&Condition) -> Condition) {
        let mut known: FxHashMap<Arc<Condition>, Arc<Condition>> = FxHashMap::default();
        let mut map = |condition: &mut Arc<Condition>| {
            let new = || Arc::new(of(condition));
            let new = Arc::clone(known.entry(Arc::clone(condition)).or_insert_with(new));
            *condition = new;
        };
        self.roots.iter_mut().for_each(&mut map);
        self.directories.iter_mut().for_each(|it| map(&mut it.condition));
        self.search_dirs.iter_mut().flat_map(|it| &mut it.conditions).for_each(&mut map);
        for object in &mut self.objects {
            object.in_stores.iter_mut().for_each(&mut map);
            object.edges.iter_mut().flat_map(|it| &mut it.conditions).for_each(&mut map);
        }
        self.bound.objects.iter_mut().for_each(|it| map(&mut it.condition));
    }
}

/// Returns the hash of the objects of a start, as the loader names them: the libraries and the
/// loader, in the order in which they are first needed. It is never 0.
#[must_use]
pub fn load_order<'a>(objects: impl IntoIterator<Item = &'a BStr>) -> u64 {
    let start = |seed, path: &BStr| hash::bytes(seed, path);
    objects.into_iter().fold(1, start).max(1)
}

/// A program, under its real path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The path.
    pub path: BString,
    /// `PT_INTERP`.
    pub interpreter: BString,
    /// The needs of its start.
    pub needs: tls::Start,
    /// Hash of the objects of its start in an empty environment ([`load_order`]), or 0 if unknown.
    pub load_order: u64,
    /// [`Fingerprint::digest`] of the file when it was read, or 0 if unknown.
    pub seen: u32,
}

/// A requester, under one of the paths by which it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The path, as the loader names it. It is empty for the common object, whose answers are for
    /// every object without a run path.
    pub path: BString,
    /// True if no component of the path is a link.
    pub canonical: bool,
    /// True if its whole run path is immutable and was searched, no other object's `DT_RPATH`
    /// applies, and the loader cache and the system directories follow.
    pub closed: bool,
    /// The hash of the run path that the answers depend on.
    pub run_path: u32,
    /// True if it names an interpreter.
    pub is_program: bool,
    /// [`Fingerprint::digest`] of the file when it was read, or 0 if unknown.
    pub seen: u32,
    /// The directories of its run path, in order, without trailing slashes; each is one of
    /// [`Index::folders`].
    pub searched: Vec<Arc<BString>>,
    /// The conditions of the directories of its run path that are in stores, in order. While the
    /// conditions of the roots do not hold, an answer needs those up to its own.
    pub in_stores: Vec<Arc<Condition>>,
    /// The directories of its `DT_RPATH`, in order; each is one of [`Index::search_dirs`]. `None` if
    /// it has none, or not all of them are known.
    pub rpath: Option<Vec<Arc<BString>>>,
    /// Counts of the lookups that are left to the loader, by [`build::Deferred`]. 255 means 255 or
    /// more.
    pub deferred: [u8; 8],
    /// The answers.
    pub edges: Vec<Edge>,
}

/// One answer. The needed string is the part of the path after the last slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// The path: search directory, slash, needed string.
    pub path: BString,
    /// True if found along `DT_RPATH`, which comes before `LD_LIBRARY_PATH`.
    pub before_library_path: bool,
    /// True if no directory of any indexed run path has the name. For the common object only.
    pub outside: bool,
    /// True if the file may be removed while the conditions hold. The module checks that it exists.
    pub look: bool,
    /// The conditions, each once; all must hold.
    pub conditions: Vec<Arc<Condition>>,
}

impl Edge {
    /// The needed string.
    #[must_use]
    pub fn needed(&self) -> &BStr {
        path::name(&self.path)
    }
}

/// A condition of an answer, besides the immutable stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The directory is unchanged.
    Directory(BString, Fingerprint),
    /// `stat` of the path fails with `ENOENT`.
    Absent(BString),
    /// The file is unchanged.
    File(BString, Fingerprint),
    /// The path of the process's loader is one of these, separated by `:`.
    Loader(BString),
    /// A directory of a package that is not in its store. It cannot exist while the conditions of
    /// the roots hold; otherwise the module checks.
    AbsentPackage(BString),
    /// A directory in a store, as [`Condition::Directory`]. It cannot change while the conditions
    /// of the roots hold; otherwise the module checks.
    StoreDirectory(BString, Fingerprint),
    /// A directory of an image: root owns it, no other user may write to it, and its modification
    /// time is unchanged. Device, inode and status change time differ in each copy of the image.
    ImageDirectory(BString, Fingerprint),
    /// As [`Condition::ImageDirectory`] for a file, whose length is unchanged too.
    ImageFile(BString, Fingerprint),
}

impl Condition {
    /// Returns the path that the condition checks.
    #[must_use]
    pub fn path(&self) -> &BStr {
        self.parts().1.as_ref()
    }

    /// Returns the kind in a table, the path and the fingerprint.
    fn parts(&self) -> (u32, &BString, Fingerprint) {
        let (kind, path, fingerprint) = match self {
            Self::Directory(path, known) => (layout::CONDITION_DIRECTORY, path, Some(known)),
            Self::Absent(path) => (layout::CONDITION_ABSENT, path, None),
            Self::File(path, known) => (layout::CONDITION_FILE, path, Some(known)),
            Self::Loader(path) => (layout::CONDITION_LOADER, path, None),
            Self::AbsentPackage(path) => (layout::CONDITION_ABSENT_PACKAGE, path, None),
            Self::StoreDirectory(path, at) => (layout::CONDITION_STORE_DIRECTORY, path, Some(at)),
            Self::ImageDirectory(path, at) => (layout::CONDITION_IMAGE_DIRECTORY, path, Some(at)),
            Self::ImageFile(path, known) => (layout::CONDITION_IMAGE_FILE, path, Some(known)),
        };
        (kind, path, fingerprint.copied().unwrap_or_default())
    }

    /// Returns the condition as that of an image. Conditions without times are returned unchanged.
    #[must_use]
    pub fn of_image(self) -> Self {
        match self {
            Condition::Directory(path, known) if known.volume != 0 => {
                Condition::ImageDirectory(path, Fingerprint { size: 0, ..known.of_image() })
            }
            Condition::File(path, known) if known.volume != 0 => {
                Condition::ImageFile(path, known.of_image())
            }
            other => other,
        }
    }

    /// Returns true for a condition of an image.
    #[must_use]
    pub fn is_of_image(&self) -> bool {
        matches!(self, Condition::ImageDirectory(..) | Condition::ImageFile(..))
    }
}

/// The fields of `statx` of a directory or file by which a change is detected, as an index keeps
/// them, with a number of the file system that holds after a reboot (`docs/identity.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The file system ([`volume::Volume::number`]); 0 if the times prove nothing there.
    pub volume: u64,
    /// Inode number.
    pub ino: u64,
    /// Length in bytes; for the directory of a condition [`volume::Listing::hash`], or 0.
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
    /// Returns a number that identifies this state of the file, above [`Folder::ABSENT`].
    #[must_use]
    pub fn digest(&self) -> u32 {
        let Self { volume, ino, size, mtime, ctime } = self;
        let times = [mtime.sec, i64::from(mtime.nsec), ctime.sec, i64::from(ctime.nsec)];
        let words = [*volume, *ino, *size].into_iter().chain(times.map(i64::cast_unsigned));
        (hash::words(0, words) as u32).max(Folder::ABSENT + 1)
    }

    /// Returns the parts that are the same in every copy of an image: length and time of
    /// modification.
    #[must_use]
    pub fn of_image(self) -> Self {
        Self { size: self.size, mtime: self.mtime, ..Self::default() }
    }

    /// Returns false if a later change could leave the same fingerprint, because times prove nothing
    /// on its file system, or because the last change is within the grain of the clock before `now`. The grain is a tenth of a second if the file
    /// system stores fractions (the kernel's clock ticks at least every 10 ms), and two seconds if
    /// it seems to store none.
    #[must_use]
    pub fn is_settled(&self, now: Time) -> bool {
        let settled = |time: Time| {
            let grain = if time.nsec == 0 { 2_000_000_000 } else { 100_000_000 };
            let age = (i128::from(now.sec) - i128::from(time.sec)) * 1_000_000_000
                + i128::from(now.nsec)
                - i128::from(time.nsec);
            age > grain
        };
        self.volume != 0 && settled(self.mtime) && settled(self.ctime)
    }
}

/// A directory as it was indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The path, as `LD_LIBRARY_PATH` names it, without a trailing slash.
    pub path: BString,
    /// Its condition: [`Condition::Directory`] or [`Condition::Absent`].
    pub condition: Arc<Condition>,
    /// The names in it, ascending, if `LD_LIBRARY_PATH` may contain the directory. `None` if its
    /// names are not stored.
    pub names: Option<Vec<hash::NameHash>>,
}

/// A directory of a `DT_RPATH`, with all its names. It gives answers for every object that is
/// loaded below the object with the `DT_RPATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchDir {
    /// The path, as the run path names it, without a trailing slash.
    pub path: BString,
    /// The conditions; all must hold.
    pub conditions: Vec<Arc<Condition>>,
    /// True if its files may be removed while the directory is unchanged. The module checks the
    /// file first.
    pub look: bool,
    /// The names, ascending. A certain name is an answer for every requester.
    pub names: Vec<hash::NameHash>,
}

/// A directory that was listed for objects, or that the search of an object may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The path in the run path or the listing, without a trailing slash.
    pub path: BString,
    /// [`Fingerprint::digest`] without the length, [`Self::ABSENT`] or [`Self::UNKNOWN`].
    pub digest: u32,
    /// True if it was listed for objects.
    pub walked: bool,
}

impl Folder {
    /// The folder changed while it was read, so its state is unknown.
    pub const UNKNOWN: u32 = 0;
    /// The folder did not exist.
    pub const ABSENT: u32 = 1;
}

/// The machine of a table, which also decides the byte order of the table.
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
    /// Returns the machine of an object.
    #[must_use]
    pub fn of(ident: &Ident) -> Self {
        Self { machine: ident.machine, class: ident.class, endian: ident.endian }
    }
}

/// The reason why an index cannot be written as a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The format's 32-bit offsets (24-bit for sets of conditions) are too small for the index.
    #[error("the index is too large: {0}")]
    TooLarge(&'static str),
    /// A path longer than 65,535 bytes.
    #[error("{0}...: path too long for an index")]
    PathTooLong(BString),
    /// An object names a folder that does not exist.
    #[error("the index names folder {0}, which it does not have")]
    NoSuchFolder(BString),
}
