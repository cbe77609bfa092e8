//! Plain data about a loader and the environment of a start, which a model needs besides the
//! files.
//!
//! [`crate::loader::facts`] reads the facts from a loader's diagnostics or from its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bstr::{BStr, BString};
use thiserror::Error;

/// A C library, with the release if its rules depend on the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Libc {
    /// The GNU C Library.
    Glibc(GlibcVersion),
    /// musl; its search rules have not changed since 1.1.
    #[default]
    Musl,
}

/// A glibc release: 2.36 is `GlibcVersion { major: 2, minor: 36 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlibcVersion {
    /// The first number, which is 2.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

/// Returned if a `--libc` value names no known C library.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown C library '{0}' ({oldest} to {newest}, or musl)",
    oldest = Libc::Glibc(GLIBC_RANGE.0),
    newest = Libc::Glibc(GLIBC_RANGE.1)
)]
pub struct UnknownLibc(pub String);

/// The oldest and the newest glibc release that the model is tested against.
pub const GLIBC_RANGE: (GlibcVersion, GlibcVersion) =
    (GlibcVersion { major: 2, minor: 31 }, GlibcVersion { major: 2, minor: 44 });

impl FromStr for Libc {
    type Err = UnknownLibc;

    fn from_str(text: &str) -> Result<Self, UnknownLibc> {
        if text == "musl" {
            return Ok(Libc::Musl);
        }
        let parts = text.strip_prefix("glibc-").and_then(|version| version.split_once('.'));
        let version = parts.and_then(|(major, minor)| {
            Some(GlibcVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        let version = version.filter(|it| (GLIBC_RANGE.0..=GLIBC_RANGE.1).contains(it));
        version.map(Libc::Glibc).ok_or_else(|| UnknownLibc(text.to_owned()))
    }
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Libc::Glibc(version) => write!(f, "glibc-{}.{}", version.major, version.minor),
            Libc::Musl => f.write_str("musl"),
        }
    }
}

/// The facts of a loader that a model needs besides the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoaderFacts {
    /// C library and release.
    pub libc: Libc,
    /// Compiled-in search directories in order, each ending in a slash.
    pub system_dirs: Vec<BString>,
    /// Path of the loader cache (`/etc/ld.so.cache`); musl has none.
    pub cache_path: Option<BString>,
    /// The value of `$LIB`, without slashes at its ends.
    pub lib: BString,
    /// The value of `$PLATFORM`, if the loader has one.
    pub platform: Option<BString>,
    /// Active `glibc-hwcaps` subdirectory names (`x86-64-v3`), best first.
    pub hwcaps: Vec<BString>,
    /// The names of the legacy hwcaps power set in the order of glibc's table (least
    /// significant first, `tls` last). Empty since glibc 2.37.
    pub legacy_hwcaps: Vec<BString>,
    /// `GLRO(dl_hwcap) & hwcap_mask`: the capabilities that an old-style entry of the loader
    /// cache may require.
    pub hwcap_mask: u64,
    /// The bit of the platform in the hwcap field of an old-style entry
    /// (`_dl_string_platform`), if the architecture has platforms.
    pub platform_bit: Option<u8>,
    /// The strategies that the loader's bytes show it to support. The model uses
    /// [`Environment::reads`] instead, which the user can override.
    pub reads: Readers,
    /// The tunable `glibc.rtld.execstack=0` (since 2.42): no object may have an executable stack. The
    /// tunables that mask hwcaps are in the other facts.
    pub no_exec_stack: bool,
}

impl LoaderFacts {
    /// Returns true if an answer of a loader cache is in a system directory. glibc compares the
    /// prefixes, so that a subdirectory counts as well.
    #[must_use]
    pub fn is_in_system_dirs(&self, path: &BStr) -> bool {
        self.system_dirs.iter().any(|dir| path.starts_with(dir))
    }
}

/// The environment variables and modes of a start that change the search.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<BString>,
    /// `LD_PRELOAD`.
    pub preload: Option<BString>,
    /// `LD_AUDIT`.
    pub audit: Option<BString>,
    /// Secure-execution mode (`AT_SECURE`): a set-id program started by another user.
    pub secure: bool,
    /// The strategies that a patched loader supports.
    pub reads: Readers,
    /// The answers that audit modules give before the loader searches.
    pub audit_answers: AuditAnswers,
}

/// The answers of `la_objsearch` with `LA_SER_ORIG`: paths that the loader opens instead of
/// searching for the needed string, by the path of the object that needs them and the needed string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditAnswers(pub BTreeMap<BString, BTreeMap<BString, BString>>);

impl AuditAnswers {
    /// Adds the answer to a needed string of the object with the path `needed_by`.
    pub fn insert(&mut self, needed_by: &BStr, needed: &BStr, path: BString) {
        self.0.entry(needed_by.to_owned()).or_default().insert(needed.to_owned(), path);
    }

    /// Returns the answer, if there is one.
    #[must_use]
    pub fn get(&self, needed_by: &BStr, needed: &BStr) -> Option<&BStr> {
        self.0.get(needed_by)?.get(needed).map(|path| path.as_ref())
    }
}

/// A format of answers that only patched loaders read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Resolution notes of objects.
    Notes,
    /// Loader caches of packages.
    PackageCaches,
}

impl fmt::Display for Format {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Notes => "notes",
            Self::PackageCaches => "package caches",
        })
    }
}

/// The formats that a patched loader reads. No released glibc reads any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Readers {
    /// True if the loader reads the complete resolution notes of objects.
    pub note: bool,
    /// The prefixes below which the loader reads each package's `etc/ld.so.cache`.
    pub package_caches: Vec<BString>,
}

impl Readers {
    /// Returns readers of some formats, with package caches below `stores`.
    #[must_use]
    pub fn of(formats: &[Format], stores: &[BString]) -> Self {
        let caches = formats.contains(&Format::PackageCaches).then(|| stores.to_vec());
        Self { note: formats.contains(&Format::Notes), package_caches: caches.unwrap_or_default() }
    }

    /// Returns true if the loader reads a format.
    #[must_use]
    pub fn has(&self, format: Format) -> bool {
        match format {
            Format::Notes => self.note,
            Format::PackageCaches => !self.package_caches.is_empty(),
        }
    }
}
