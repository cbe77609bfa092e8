//! The files that a run may change: those that were named, and those below the named folders.

use std::path::{Path, PathBuf};

use becalm_core::strategy::{FilePlan, Finding, FindingKind, Plan};
use bstr::{BStr, BString};

use crate::assume::Assumptions;
use crate::problem::NoPlace;

/// The named paths on this machine, links resolved.
pub struct Scope(Vec<PathBuf>);

impl Scope {
    /// Returns the scope of a command line. A path that does not exist covers nothing.
    pub fn new(assumed: &Assumptions, paths: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| {
            let inside = assumed.fs.inside(path);
            assumed.fs.host_path(inside.as_ref()).ok()?.canonicalize().ok()
        };
        Self(paths.iter().filter_map(real).collect())
    }

    /// True if a file is named or below a named folder. The path is one of this machine.
    pub fn covers(&self, file: &Path) -> bool {
        let file = file.canonicalize();
        file.is_ok_and(|file| self.0.iter().any(|named| file.starts_with(named)))
    }

    /// Returns the files that a plan edits outside the scope, where `host` gives a file's path on
    /// this machine. Unless `allowed`, these edits are removed from the plan and become findings.
    pub fn limit(
        &self,
        plan: &mut Plan,
        allowed: bool,
        host: impl Fn(&BStr) -> Result<PathBuf, NoPlace>,
    ) -> Vec<BString> {
        let Plan { files, findings, .. } = plan;
        let is_outside = |file: &&mut FilePlan| {
            let here = host(file.path.as_ref());
            !file.edits.is_empty() && !here.is_ok_and(|here| self.covers(&here))
        };
        let mut outside = Vec::new();
        for file in files.iter_mut().filter(is_outside) {
            if allowed {
                outside.push(file.path.clone());
            } else {
                file.edits.clear();
                let path = file.path.clone();
                findings.push(Finding { path, needed: None, what: FindingKind::OutsidePaths });
            }
        }
        outside
    }
}
