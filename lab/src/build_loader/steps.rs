//! Runs the steps of a build: a line for each on a terminal, the tools' output in a log.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The running build.
#[derive(Debug)]
pub(crate) struct Steps {
    log: PathBuf,
}

impl Steps {
    /// Starts a new log.
    ///
    /// # Errors
    /// Returns an error if the log cannot be written.
    pub(crate) fn new(log: PathBuf) -> Result<Self> {
        File::create(&log).with_context(|| log.display().to_string())?;
        Ok(Self { log })
    }

    /// Shows the current step.
    pub(crate) fn now(&self, doing: impl Into<String>) {
        if std::io::stderr().is_terminal() {
            eprintln!("{}", doing.into());
        }
    }

    /// Runs one command to its end, with its output in the log.
    ///
    /// # Errors
    /// Returns an error that names the log if the command cannot be started or fails.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        self.finish(command.stdin(Stdio::null()))
    }

    /// Applies a patch, without fuzz.
    ///
    /// # Errors
    /// Returns an error if the patch does not apply.
    pub(crate) fn patch(&self, tree: &Path, patch: &str) -> Result<()> {
        self.finish(loader_patches::apply(patch, tree)?.arg("--silent"))
    }

    fn finish(&self, command: &mut Command) -> Result<()> {
        let log = || -> std::io::Result<File> { OpenOptions::new().append(true).open(&self.log) };
        let name = command.get_program().to_string_lossy().into_owned();
        let status = command
            .env("LC_ALL", "C")
            .env_remove("LD_LIBRARY_PATH")
            .stdout(log()?)
            .stderr(log()?)
            .status()
            .with_context(|| name.clone())?;
        if !status.success() {
            bail!("{name}: {status}; its output is in {}", self.log.display());
        }
        Ok(())
    }
}
