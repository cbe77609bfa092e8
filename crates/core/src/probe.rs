//! The one vocabulary: a probe is one attempt of the loader on one path.
//!
//! The models, the parsers of `LD_DEBUG` and `strace` records and, later, the
//! tracer and the audit log all give the same sequence of [`Probe`]s, so that a
//! prediction and an observation can be compared one by one.

use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};

/// One attempt of the loader on one candidate path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Probe {
    /// Path of the object that asks, as the loader names it.
    #[serde(with = "crate::probe::lossy")]
    pub needed_by: BString,
    /// The needed string (`DT_NEEDED`, `DT_FILTER`, a preload, …) being searched.
    #[serde(with = "crate::probe::lossy")]
    pub needed: BString,
    /// The rule that supplied the search directory.
    pub source: SearchSource,
    /// The path handed to the kernel.
    #[serde(with = "crate::probe::lossy")]
    pub path: BString,
    /// Which system call was made on the path.
    pub call: Call,
    /// What came of it.
    pub outcome: Outcome,
}

/// The rule that supplied a candidate path (`LA_SER_*` of `<link.h>`, with
/// `DT_RPATH` and `DT_RUNPATH` told apart).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchSource {
    /// The needed string holds a slash: it is a path, no search is made.
    Direct,
    /// `DT_RPATH` of the asking object, of one that loaded it, or of the program.
    Rpath,
    /// `LD_LIBRARY_PATH` (or `ld.so --library-path`).
    LibraryPath,
    /// The resolution note of the asking object, where the loader reads notes: a file it
    /// names, or a directory it leaves to search.
    Note,
    /// The loader cache of the asking object's package, where the loader reads those: the
    /// file itself or the answer it gave.
    PackageCache,
    /// `DT_RUNPATH` of the asking object.
    Runpath,
    /// The loader cache, `ld.so.cache`: the file itself or the answer it gave.
    LoaderCache,
    /// A directory compiled into the loader (musl: its path file as well).
    System,
}

/// The system call made on a candidate path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// `open`/`openat` of a candidate file.
    Open,
    /// `stat`/`newfstatat`/`statx` of a search directory after its first miss.
    Stat,
}

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Open: the file answers the needed string. Stat: the directory exists.
    Hit,
    /// `ENOENT`.
    Miss,
    /// `ENOTDIR`: a component of the path is no directory.
    NotADirectory,
    /// `EACCES` or `EPERM`.
    Denied,
    /// `ELOOP`: too many symbolic links.
    Loop,
    /// `ENAMETOOLONG`.
    NameTooLong,
    /// Any other errno of a failed call.
    Failed,
    /// Opened; an ELF file of the other class, passed over.
    WrongClass,
    /// Opened; an ELF file for another machine (or float ABI), passed over.
    WrongMachine,
    /// Opened; no ELF file (or too short for one). glibc gives up here.
    NotElf,
    /// Opened; an ELF file with a header, or of a kind, that the loader refuses.
    Refused,
    /// Stat: the path exists and is no directory.
    NoDirectory,
}

impl Outcome {
    /// True where the system call itself failed, which is what a storm is counted by.
    #[must_use]
    pub fn is_failed_call(self) -> bool {
        use Outcome::*;
        match self {
            Miss | NotADirectory | Denied | Loop | NameTooLong | Failed => true,
            Hit | WrongClass | WrongMachine | NotElf | Refused | NoDirectory => false,
        }
    }
}

impl From<crate::fs::Errno> for Outcome {
    fn from(errno: crate::fs::Errno) -> Self {
        use crate::fs::Errno;
        match errno {
            Errno::NOENT => Outcome::Miss,
            Errno::NOTDIR => Outcome::NotADirectory,
            Errno::ACCES | Errno::PERM => Outcome::Denied,
            Errno::LOOP => Outcome::Loop,
            Errno::NAMETOOLONG => Outcome::NameTooLong,
            _ => Outcome::Failed,
        }
    }
}

/// Byte strings as JSON strings; bytes that are no UTF-8 become U+FFFD.
pub mod lossy {
    use bstr::{BString, ByteSlice};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the string, lossily.
    pub fn serialize<S: Serializer>(value: &BString, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.to_str_lossy())
    }

    /// Reads the string.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BString, D::Error> {
        String::deserialize(from).map(BString::from)
    }
}

/// The probes of one start, kept compactly: a storm has thousands of them and a
/// folder thousands of storms.
#[derive(Clone, Debug, Default)]
pub struct ProbeLog {
    entries: Vec<Entry>,
    paths: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    resolution: u32,
    path_at: u32,
    path_len: u32,
    dir_len: u32,
    source: SearchSource,
    call: Call,
    outcome: Outcome,
}

/// One probe of a [`ProbeLog`].
#[derive(Clone, Copy, Debug)]
pub struct LoggedProbe<'a> {
    /// Index of the resolution that the probe was made for.
    pub resolution: usize,
    /// The rule that supplied the search directory.
    pub source: SearchSource,
    /// Which system call was made.
    pub call: Call,
    /// What came of it.
    pub outcome: Outcome,
    /// The path handed to the kernel.
    pub path: &'a BStr,
    /// The search directory the path was made from, hwcaps subdirectory and trailing
    /// slash left off; empty where no directory was searched.
    pub dir: &'a BStr,
}

impl LoggedProbe<'_> {
    /// True for a probe inside a hwcaps subdirectory of its search directory, or of one.
    #[must_use]
    pub fn is_in_subdirectory(&self) -> bool {
        is_in_subdirectory(self.path, self.dir, self.call)
    }
}

/// True where `path`, made from the search directory `dir`, is a file in one of its hwcaps
/// subdirectories, or such a subdirectory itself. An empty `dir` is the current directory or
/// none.
pub(crate) fn is_in_subdirectory(path: &BStr, dir: &BStr, call: Call) -> bool {
    let below = match path.strip_prefix(dir.as_bytes()) {
        Some(below) if !dir.is_empty() => below.trim_start_with(|c| c == '/'),
        // A relative path has the current directory's subdirectories in front.
        Some(below) if !below.starts_with(b"/") => below,
        _ => return false,
    };
    match call {
        Call::Open => below.contains(&b'/'),
        Call::Stat => !below.is_empty(),
    }
}

/// The log is full: more probes than any real start makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFull;

impl ProbeLog {
    /// Probes kept at the most; a start beyond it is no storm but an attack.
    const MAX_PROBES: usize = 4_000_000;
    /// Bytes of paths kept at the most.
    const MAX_PATH_BYTES: usize = 512 << 20;

    /// Adds a probe; `dir_len` is how much of `path` is the search directory.
    ///
    /// # Errors
    /// [`LogFull`] where the log holds all it may.
    pub fn push(
        &mut self,
        resolution: usize,
        tried: (SearchSource, Call, Outcome),
        path: &[u8],
        dir_len: usize,
    ) -> Result<(), LogFull> {
        if self.entries.len() >= Self::MAX_PROBES
            || self.paths.len() + path.len() > Self::MAX_PATH_BYTES
        {
            return Err(LogFull);
        }
        let narrow = |value: usize| u32::try_from(value).map_err(|_| LogFull);
        // One name for a directory, whether a file in it was opened or it was looked at.
        let dir_len = match path.get(..dir_len) {
            Some([_, .., b'/']) => dir_len - 1,
            _ => dir_len,
        };
        let (source, call, outcome) = tried;
        self.entries.push(Entry {
            resolution: narrow(resolution)?,
            path_at: narrow(self.paths.len())?,
            path_len: narrow(path.len())?,
            dir_len: narrow(dir_len.min(path.len()))?,
            source,
            call,
            outcome,
        });
        self.paths.extend_from_slice(path);
        Ok(())
    }

    /// Number of probes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where nothing was probed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The probes in the order in which the loader makes them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LoggedProbe<'_>> {
        self.entries.iter().map(|entry| {
            let path = &self.paths[entry.path_at as usize..][..entry.path_len as usize];
            LoggedProbe {
                resolution: entry.resolution as usize,
                source: entry.source,
                call: entry.call,
                outcome: entry.outcome,
                path: BStr::new(path),
                dir: BStr::new(&path[..entry.dir_len as usize]),
            }
        })
    }
}
