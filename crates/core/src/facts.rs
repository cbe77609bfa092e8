//! Which loader it is, and what a model must know of it beyond the files: plain data.
//!
//! [`crate::loader::facts`] finds the facts in what a loader prints or in its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bstr::{BStr, BString};
use thiserror::Error;

/// A C library and the release whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Libc {
    /// The GNU C Library.
    Glibc(GlibcVersion),
    /// musl; its search rules have not changed since 1.1.
    Musl,
}

/// A glibc release: 2.36 is `GlibcVersion { major: 2, minor: 36 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlibcVersion {
    /// 2 to this day.
    pub major: u16,
    /// The release.
    pub minor: u16,
}

/// A `--libc` value that names no C library known here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown C library '{0}' (glibc-2.31 to glibc-2.44, or musl)")]
pub struct UnknownLibc(pub String);

/// The releases the models are proven for.
pub const GLIBC_RANGE: (GlibcVersion, GlibcVersion) =
    (GlibcVersion { major: 2, minor: 31 }, GlibcVersion { major: 2, minor: 43 });

impl FromStr for Libc {
    type Err = UnknownLibc;

    fn from_str(text: &str) -> Result<Self, UnknownLibc> {
        let unknown = || UnknownLibc(text.to_owned());
        if text == "musl" {
            return Ok(Libc::Musl);
        }
        let (major, minor) = text
            .strip_prefix("glibc-")
            .and_then(|version| version.split_once('.'))
            .ok_or_else(unknown)?;
        let number = |part: &str| part.parse().map_err(|_| unknown());
        let version = GlibcVersion { major: number(major)?, minor: number(minor)? };
        if version < GLIBC_RANGE.0 || version > GLIBC_RANGE.1 {
            return Err(unknown());
        }
        Ok(Libc::Glibc(version))
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

/// What a model needs to know of the loader a program names, beyond the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderFacts {
    /// C library and release.
    pub libc: Libc,
    /// Compiled-in search directories in order, each ending in a slash.
    pub system_dirs: Vec<BString>,
    /// Path of the loader cache (`/etc/ld.so.cache`); musl has none.
    pub cache_path: Option<BString>,
    /// What `$LIB` stands for, without slashes at its ends.
    pub lib: BString,
    /// What `$PLATFORM` stands for, where the loader knows a platform.
    pub platform: Option<BString>,
    /// Active `glibc-hwcaps` subdirectory names (`x86-64-v3`), best first.
    pub hwcaps: Vec<BString>,
    /// The words of the legacy hwcaps power set in the order of glibc's table (least
    /// significant first, `tls` last); empty from glibc 2.37 on.
    pub legacy_hwcaps: Vec<BString>,
    /// `GLRO(dl_hwcap) & hwcap_mask`: what an old-style entry of the loader cache
    /// may ask for.
    pub hwcap_mask: u64,
    /// Bit number of the platform in an old-style entry's hwcap field
    /// (`_dl_string_platform`), where the architecture has platforms.
    pub platform_bit: Option<u8>,
    /// The carriers it reads, as far as its bytes tell. The model goes by those of
    /// [`Environment::reads`].
    pub reads: Readers,
}

/// What of the environment and of the way a program is started the search obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<BString>,
    /// `LD_PRELOAD`.
    pub preload: Option<BString>,
    /// `LD_AUDIT`.
    pub audit: Option<BString>,
    /// Secure-execution mode (`AT_SECURE`): a set-id program started by another user.
    pub secure: bool,
    /// What the loader reads beyond what released ones do.
    pub reads: Readers,
    /// What audit modules answer before the loader searches.
    pub audit_answers: AuditAnswers,
}

/// The answers of `la_objsearch` with `LA_SER_ORIG`: paths that are opened instead of a
/// search for the needed string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditAnswers(BTreeMap<BString, BTreeMap<BString, BString>>);

impl AuditAnswers {
    /// Adds the answer to one needed string of the object at a path.
    pub fn insert(&mut self, needed_by: &BStr, needed: &BStr, path: BString) {
        self.0.entry(needed_by.to_owned()).or_default().insert(needed.to_owned(), path);
    }

    /// The answer, if there is one.
    #[must_use]
    pub fn get(&self, needed_by: &BStr, needed: &BStr) -> Option<&BStr> {
        self.0.get(needed_by)?.get(needed).map(|path| path.as_ref())
    }

    /// True if nothing is answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which carriers a loader reads; a released one reads none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// The resolution notes of objects.
    pub note: bool,
    /// Prefixes of stores: a directory of a package below one never changes, so a note need not
    /// name it.
    pub stores: Vec<BString>,
    /// `etc/ld.so.cache` at the root of the packages below these prefixes.
    pub package_caches: Vec<BString>,
}
