//! A small store for the trial, and the checks of its content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::succeed;
use crate::root;

/// The store, beside its first content.
pub(super) struct Scene {
    pub(super) becalm: PathBuf,
    /// The original store, in which the libraries are found.
    lab: PathBuf,
    dir: tempfile::TempDir,
}

impl Scene {
    /// Copies the smallest `objects` programs and libraries of `store` that have a run path and
    /// need something.
    pub(super) fn new(becalm: &Path, store: &Path, objects: usize) -> Result<Self> {
        let lab = store.canonicalize().context("--store: run `lab import` first")?;
        let mut found: Vec<(u64, PathBuf)> = Vec::new();
        for (path, view) in root::objects(&lab) {
            let has_run_path = view.dynamic.as_ref().is_some_and(|it| it.runpath.is_some());
            if has_run_path && view.needed().count() > 1 {
                found.push((fs::metadata(&path)?.len(), path));
            }
        }
        found.sort();
        ensure!(found.len() >= objects, "{}: too few objects", lab.display());
        let dir = tempfile::tempdir()?;
        for (_, path) in found.into_iter().take(objects) {
            let to = dir.path().join("original").join(path.strip_prefix(&lab)?);
            fs::create_dir_all(to.parent().context("a directory")?)?;
            fs::copy(&path, &to)?;
        }
        Ok(Self { becalm: becalm.to_owned(), lab, dir })
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn original(&self) -> PathBuf {
        self.dir.path().join("original")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.path().join("strace")
    }

    /// Returns the arguments of a command for the whole store, in one thread.
    pub(super) fn arguments(&self, run: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = run.iter().map(|&word| word.to_owned()).collect();
        arguments.extend(["-j".to_owned(), "1".to_owned()]);
        if run[0] == "fix" {
            let prefixes = format!("{}:{}", self.lab.display(), self.store().display());
            // These options replace running the loader, whose writes must not be counted.
            let stated = ["--libc", "glibc-2.36", "--cpu", "baseline", "--store", &prefixes];
            arguments.extend(stated.map(str::to_owned));
        }
        arguments.push(self.store().display().to_string());
        arguments
    }

    /// Restores the first content and runs the commands `before`.
    pub(super) fn reset(&self, before: &[&[&str]]) -> Result<()> {
        succeed(Command::new("rm").arg("-rf").arg(self.store()))?;
        succeed(Command::new("cp").arg("-a").args([self.original(), self.store()]))?;
        before.iter().try_for_each(|run| self.becalm_does(run))
    }

    /// Undoes all edits with becalm and compares the store with its first content, byte for byte.
    pub(super) fn check(&self) -> Result<()> {
        // A run on the result of a killed one must succeed.
        self.becalm_does(&["fix", "--with", "note"])?;
        self.becalm_does(&["undo"])?;
        let mut diff = Command::new("diff");
        diff.args(["--recursive", "--no-dereference"]);
        succeed(diff.args([self.original(), self.store()]))
    }

    fn becalm_does(&self, run: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.becalm);
        succeed(command.args(self.arguments(run)))
    }
}
