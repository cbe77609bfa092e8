//! The glibc releases with a patch.

use std::str::FromStr;

/// A glibc release, its Debian suite and its patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite of its `glibc-source`.
    pub suite: &'static str,
    /// The patches in their order (`crates/lib/patches/glibc/VERSION/000*.patch`): the reader of
    /// notes, and the reader of package caches.
    pub patches: [&'static str; 2],
}

macro_rules! patches {
    ($version:literal) => {
        [
            include_str!(concat!(
                "../../../crates/lib/patches/glibc/",
                $version,
                "/0001-elf-Read-resolution-notes.patch"
            )),
            include_str!(concat!(
                "../../../crates/lib/patches/glibc/",
                $version,
                "/0002-elf-Read-loader-caches-of-packages.patch"
            )),
        ]
    };
}

const RELEASES: [Release; 4] = [
    Release { version: "2.36", suite: "bookworm", patches: patches!("2.36") },
    Release { version: "2.41", suite: "trixie", patches: patches!("2.41") },
    Release { version: "2.43", suite: "sid", patches: patches!("2.43") },
    Release { version: "2.44", suite: "experimental", patches: patches!("2.44") },
];

/// A glibc release without a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no patch for it; there is one for {}", known())]
pub(crate) struct NoPatch;

impl FromStr for Release {
    type Err = NoPatch;

    fn from_str(text: &str) -> Result<Self, NoPatch> {
        RELEASES.into_iter().find(|release| release.version == text).ok_or(NoPatch)
    }
}

fn known() -> String {
    RELEASES.map(|release| release.version).join(", ")
}

#[cfg(test)]
mod tests {
    use becalm_core::facts::{GLIBC_RANGE, Libc};

    use super::*;
    use crate::build_loader::manual::without_manual;

    #[test]
    fn a_release_without_a_patch_is_refused_with_those_that_have_one() {
        assert_eq!("2.41".parse::<Release>().map(|release| release.suite), Ok("trixie"));
        assert!(
            "2.40"
                .parse::<Release>()
                .is_err_and(|error| error.to_string().contains("2.36, 2.41, 2.43, 2.44"))
        );
    }

    #[test]
    fn every_release_with_a_patch_is_accepted_as_a_c_library() {
        let last = RELEASES.map(|release| format!("glibc-{}", release.version).parse::<Libc>());
        assert!(last.iter().all(Result::is_ok), "{last:?}");
        assert_eq!(last.last(), Some(&Ok(Libc::Glibc(GLIBC_RANGE.1))));
    }

    #[test]
    fn every_patch_changes_the_manual_and_nothing_generated() {
        for (release, patch) in RELEASES.iter().flat_map(|r| r.patches.map(|patch| (r, patch))) {
            assert!(patch.contains("\n--- a/manual/tunables.texi\n"), "{}", release.version);
            assert!(!without_manual(patch).contains("manual/"), "{}", release.version);
            assert!(!patch.contains("\n--- a/configure\n"), "{}", release.version);
        }
    }
}
