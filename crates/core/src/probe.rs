//! Probes: one probe is one attempt of the loader on one path.
//!
//! The models, the parsers of `LD_DEBUG` and `strace` records, the tracer and the audit log all give
//! a sequence of [`Probe`]s. A prediction and an observation can therefore be compared probe by probe.

use std::fmt::{self, Display, Formatter};

use bstr::{BStr, BString, ByteSlice};
use serde::{Deserialize, Serialize};

/// One attempt of the loader on one candidate path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Probe {
    /// The path of the requester, as the loader opened it.
    #[serde(with = "crate::lossy")]
    pub needed_by: BString,
    /// The needed string (`DT_NEEDED`, `DT_FILTER`, a preload, …) being searched.
    #[serde(with = "crate::lossy")]
    pub needed: BString,
    /// The rule that supplied the search directory.
    pub source: SearchSource,
    /// The path in the system call.
    #[serde(with = "crate::lossy")]
    pub path: BString,
    /// The kind of the system call.
    pub call: Call,
    /// The result.
    pub outcome: Outcome,
}

/// An open or a stat of a path: a probe without the requester, needed string and search source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The kind of the call.
    pub call: Call,
    /// The path.
    pub path: BString,
    /// The errno as an outcome. It is [`Outcome::Hit`] for every successful call, even if the loader
    /// rejects the file.
    pub outcome: Outcome,
}

/// The rule that supplied a candidate path. The rules are those of `LA_SER_*` in `<link.h>`, with
/// separate ones for `DT_RPATH` and `DT_RUNPATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchSource {
    /// The needed string contains a slash. It is a path and is not searched for.
    Direct,
    /// `DT_RPATH` of the requester, of an object that loaded it, or of the program.
    Rpath,
    /// `LD_LIBRARY_PATH` (or `ld.so --library-path`).
    LibraryPath,
    /// An exact answer or a hint in the requester's resolution note, in a loader that reads notes.
    Note,
    /// The loader cache of the requester's package, or its answer, in a loader that reads package
    /// caches.
    PackageCache,
    /// `DT_RUNPATH` of the requester.
    Runpath,
    /// The loader cache `ld.so.cache`, or its answer.
    LoaderCache,
    /// A directory compiled into the loader, or one in musl's path file.
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

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Open: the loader uses the file. Stat: the directory exists.
    Hit,
    /// `ENOENT`.
    Miss,
    /// `ENOTDIR`: a component of the path is not a directory.
    NotADirectory,
    /// `EACCES` or `EPERM`.
    Denied,
    /// `ELOOP`: too many symbolic links.
    Loop,
    /// `ENAMETOOLONG`.
    NameTooLong,
    /// The call failed with another errno.
    Failed,
    /// The file opened and is an ELF file of the other class. glibc skips it.
    WrongClass,
    /// The file opened and is an ELF file for another machine or float ABI. glibc skips it.
    WrongMachine,
    /// The file opened and is not an ELF file, or too short. glibc raises an error.
    NotElf,
    /// The file opened and has an ELF header or a kind that the loader refuses.
    Refused,
    /// Stat: the path exists and is not a directory.
    NoDirectory,
}

impl Outcome {
    /// Returns true if the system call itself failed. Only these outcomes count as misses.
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

// Serde writes a variant to a formatter as into JSON: by its name, padded as the formatter wants it.
impl Display for SearchSource {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}

impl Display for Call {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}

impl Display for Outcome {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}

/// The probes of one start in a compact form. A start can have thousands of probes, and a directory
/// thousands of programs.
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
    /// Index of the resolution of the probe.
    pub resolution: usize,
    /// The rule that supplied the search dir.
    pub source: SearchSource,
    /// The kind of the system call.
    pub call: Call,
    /// The result.
    pub outcome: Outcome,
    /// The path in the system call.
    pub path: &'a BStr,
    /// The search dir of the path, without the hwcaps subdirectory and without a trailing slash. It is
    /// empty if no directory was searched.
    pub dir: &'a BStr,
}

impl LoggedProbe<'_> {
    /// Returns true for a probe of a hwcaps subdirectory of its search dir, or of a file in one. An empty
    /// `dir` is the current directory, or means that no directory was searched.
    #[must_use]
    pub(crate) fn is_in_subdirectory(&self) -> bool {
        let Self { path, dir, .. } = self;
        let below = match path.strip_prefix(dir.as_bytes()) {
            Some(below) if !dir.is_empty() => below.trim_start_with(|c| c == '/'),
            // A relative path starts with the subdirectory of the current directory.
            Some(below) if !below.starts_with(b"/") => below,
            _ => return false,
        };
        match self.call {
            Call::Open => below.contains(&b'/'),
            Call::Stat => !below.is_empty(),
        }
    }
}

/// Returned if the log is full. No real start makes so many probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFull;

impl ProbeLog {
    /// The limit on probes. Only crafted files make a start with more.
    const MAX_PROBES: usize = 4_000_000;
    /// The limit on the bytes of all paths.
    const MAX_PATH_BYTES: usize = 512 << 20;

    /// Adds a probe. The first `dir_len` bytes of `path` are the search dir.
    ///
    /// # Errors
    /// Returns [`LogFull`] if the log has reached a limit.
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
        // A `stat` has no trailing slash before glibc 2.38: both calls get the same name of the
        // directory.
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

    /// Returns the number of probes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no probes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the probes in the order of the loader.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json_and_are_padded() {
        assert_eq!(format!("{:<16}|", SearchSource::LibraryPath), "library-path    |");
        assert_eq!(format!("{}", Call::Open), "open");
        assert_eq!(format!("{:<5}|", Outcome::NotADirectory), "not-a-directory|");
    }
}
