//! The releases that there is a patch for.

use std::str::FromStr;

/// A glibc release, its Debian suite and its patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// glibc's version.
    pub version: &'static str,
    /// The Debian suite whose `glibc-source` it is.
    pub suite: &'static str,
    /// The patch (`crates/lib/patches/glibc/VERSION/resolution.patch`).
    pub patch: &'static str,
}

const RELEASES: [Release; 3] = [
    Release {
        version: "2.36",
        suite: "bookworm",
        patch: include_str!("../../patches/glibc/2.36/resolution.patch"),
    },
    Release {
        version: "2.41",
        suite: "trixie",
        patch: include_str!("../../patches/glibc/2.41/resolution.patch"),
    },
    Release {
        version: "2.43",
        suite: "sid",
        patch: include_str!("../../patches/glibc/2.43/resolution.patch"),
    },
];

/// A glibc release that there is no patch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no patch for it; there is one for {}", known())]
pub struct NoPatch;

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
    use super::*;

    #[test]
    fn a_release_without_a_patch_is_refused_with_those_that_have_one() {
        assert_eq!("2.41".parse::<Release>().map(|release| release.suite), Ok("trixie"));
        assert!(
            "2.40"
                .parse::<Release>()
                .is_err_and(|error| error.to_string().contains("2.36, 2.41, 2.43"))
        );
    }
}
