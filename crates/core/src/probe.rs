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

impl Probe {
    /// Returns the call of the probe, as it was observed: the loader may have rejected a file that opened.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        let outcome = if self.outcome.is_failed_call() { self.outcome } else { Outcome::Hit };
        Attempt { call: self.call, path: self.path.clone(), outcome }
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

/// One probe of a start.
#[derive(Clone, Debug)]
pub struct LoggedProbe {
    /// Index of the resolution of the probe.
    pub resolution: usize,
    /// The rule that supplied the search dir.
    pub source: SearchSource,
    /// The kind of the system call.
    pub call: Call,
    /// The result.
    pub outcome: Outcome,
    /// The path in the system call.
    pub path: BString,
    /// The length of the search dir at the start of the path, with its slash if the path has it.
    pub(crate) dir_len: usize,
}

impl LoggedProbe {
    /// Returns the search dir of the path, without the hwcaps subdirectory and without a trailing slash. It
    /// is empty if no directory was searched.
    #[must_use]
    pub fn dir(&self) -> &BStr {
        // A `stat` has no trailing slash before glibc 2.38: both calls get the same name of the
        // directory.
        match &self.path[..self.dir_len.min(self.path.len())] {
            [dir @ .., b'/'] if !dir.is_empty() => dir.as_bstr(),
            dir => dir.as_bstr(),
        }
    }

    /// Returns true for a probe of a hwcaps subdirectory of its search dir, or of a file in one.
    pub(crate) fn is_in_subdirectory(&self) -> bool {
        // The `stat` of the search dir itself may lack the slash that `dir_len` counts.
        let below = self.path.get(self.dir_len..).unwrap_or_default();
        match self.call {
            // An absolute path here means that no directory was searched.
            _ if below.starts_with(b"/") => false,
            Call::Open => below.contains(&b'/'),
            Call::Stat => !below.is_empty(),
        }
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
