//! `cargo xtask patches`: writes the loader patches of glibc releases as files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use loader_patches::{NoPatch, RELEASES, Release};

/// Options of the chore.
#[derive(Args)]
pub struct Options {
    /// Folder for a folder of each release
    #[arg(value_name = "DIR", default_value = "target/loader-patches")]
    folder: PathBuf,
}

/// Writes the patches of all releases.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn run(options: &Options) -> Result<bool> {
    for release in RELEASES {
        let folder = options.folder.join(release.version);
        release.write(&folder)?;
        println!("{}", folder.display());
    }
    Ok(true)
}

/// Parses `VERSION=DIR`, a source tree of a release with a patch.
///
/// # Errors
/// Returns an error for any other text and for a release without a patch.
pub fn source(text: &str) -> Result<(Release, PathBuf), String> {
    let (version, dir) = text.split_once('=').ok_or("not VERSION=DIR")?;
    let release = version.parse().map_err(|error: NoPatch| format!("{version}: {error}"))?;
    Ok((release, dir.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_without_a_patch_is_refused() {
        assert!(source("2.41=/x").is_ok());
        assert!(source("2.40=/x").is_err());
        assert!(source("/x").is_err());
    }
}
