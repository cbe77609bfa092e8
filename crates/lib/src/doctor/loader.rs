//! The loader of this machine: its release and its capabilities.

use becalm_core::closure::Subject;
use becalm_core::facts::{GLIBC_RANGE, Libc};
use becalm_core::index::bound::RELEASES;
use becalm_host::{FactChoice, OsFs, loader_facts};
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::doctor::{Finding, FindingKind};

/// The program whose loader is examined: every Linux system has it.
const SHELL: &str = "/bin/sh";

/// The capabilities of the loader of this machine's programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoaderState {
    /// Its path, as `/bin/sh` names it.
    #[serde(serialize_with = "crate::json::lossy")]
    pub path: BString,
    /// C library and release.
    pub libc: String,
    /// True if it loads audit modules, so that an index answers its lookups.
    pub takes_index: bool,
    /// True if bindings from an index are applied under it.
    pub takes_bindings: bool,
    /// True if it reads resolution notes.
    pub reads_notes: bool,
    /// True if it reads the loader caches of packages.
    pub reads_package_caches: bool,
    /// The `glibc-hwcaps` subdirectories that it searches, best first.
    pub hwcaps: Vec<String>,
}

impl LoaderState {
    /// Returns the facts about the loader of `/bin/sh`.
    pub(super) fn of_shell() -> Option<Self> {
        let fs = OsFs::new();
        let subject = Subject::open(&fs.session(), SHELL.into()).ok()?;
        let path = subject.interpreter?;
        let facts = loader_facts(&fs, path.as_ref(), &FactChoice::default()).ok()?;
        let release = match facts.libc {
            Libc::Glibc(release) => Some(release),
            Libc::Musl => None,
        };
        Some(Self {
            path,
            libc: facts.libc.to_string(),
            takes_index: release.is_some_and(|release| release >= GLIBC_RANGE.0),
            takes_bindings: release.is_some_and(|it| (RELEASES.0..=RELEASES.1).contains(&it)),
            reads_notes: facts.reads.note,
            reads_package_caches: !facts.reads.package_caches.is_empty(),
            hwcaps: facts.hwcaps.iter().map(|name| name.to_str_lossy().into_owned()).collect(),
        })
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let what = format!("the loader of /bin/sh is of {}, which loads no index", self.libc);
        let remedy = "becalm fix --with absolute or farm works with every loader";
        (!self.takes_index).then(|| Finding::new(FindingKind::Loader, what, remedy))
    }
}
