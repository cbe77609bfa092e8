//! Source trees of glibc that a chore builds: the arguments that `loader-tests` and `glibc-tests` share.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use loader_patches::Release;

use crate::patches;

/// The trees, and where they are built.
#[derive(Args)]
pub struct GlibcSources {
    /// Unpatched source trees of Debian's glibc-source, each as VERSION=DIR; they stay as they are
    #[arg(value_name = "VERSION=DIR", required = true, value_parser = patches::source)]
    sources: Vec<(Release, PathBuf)>,
    /// Folder of trees and objects: 0.5 to 1 GB a build, used again by the next run
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

impl GlibcSources {
    /// Makes the folder and returns its real path.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let shown = || self.folder.display().to_string();
        fs::create_dir_all(&self.folder).with_context(shown)?;
        fs::canonicalize(&self.folder).with_context(shown)
    }

    /// The trees with their releases: each is of its release and unpatched, or an error.
    pub(crate) fn trees(&self) -> impl Iterator<Item = Result<(Release, PathBuf)>> {
        self.sources.iter().map(|(release, dir)| {
            let dir = fs::canonicalize(dir).with_context(|| dir.display().to_string())?;
            check(release.version, &dir)?;
            Ok((*release, dir))
        })
    }
}

/// Returns an error if the tree has another release, or is patched.
fn check(version: &str, dir: &Path) -> Result<()> {
    let path = dir.join("version.h");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(text.contains(&format!("\"{version}\"")), "{}: not glibc {version}", dir.display());
    if dir.join("elf/dl-resolution.h").exists() {
        bail!("{}: patched already", dir.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_another_release_or_a_patched_one_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("version.h"), "#define VERSION \"2.41\"\n").unwrap();
        assert!(check("2.41", tree.path()).is_ok());
        assert!(check("2.4", tree.path()).is_err());
        fs::create_dir(tree.path().join("elf")).unwrap();
        fs::write(tree.path().join("elf/dl-resolution.h"), "").unwrap();
        assert!(check("2.41", tree.path()).is_err());
    }
}
