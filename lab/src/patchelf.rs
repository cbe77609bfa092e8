//! Runs patchelf, which writes a store's run paths; becalm does not write them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::child;

/// A working patchelf.
#[derive(Debug, Clone)]
pub(crate) struct Patchelf {
    /// Its path.
    pub(crate) program: PathBuf,
    /// Its version, as in `patchelf 0.19.3`.
    pub(crate) version: String,
}

impl Patchelf {
    /// Finds it: `BECALM_PATCHELF`, then where `scripts/setup` puts it below the working directory or
    /// below this workspace, then `PATH`: Debian 12 has 0.14.3, which damages `python3.11`.
    ///
    /// # Errors
    /// Returns an error if none of them runs.
    pub(crate) fn find() -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let candidates = match std::env::var_os("BECALM_PATCHELF") {
            Some(named) => vec![PathBuf::from(named)],
            None => vec![
                PathBuf::from("target/tools/bin/patchelf"),
                workspace.join("target/tools/bin/patchelf"),
                PathBuf::from("patchelf"),
            ],
        };
        for program in &candidates {
            if let Ok(version) = child::succeed(child::command(program).arg("--version")) {
                let version = version.trim().to_owned();
                return Ok(Self { program: program.clone(), version });
            }
        }
        let tried: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        bail!("no patchelf (tried {}); scripts/setup installs one", tried.join(", "))
    }
}
