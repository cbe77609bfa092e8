//! An index of one program in a scratch folder, to start the program by it a few times.

use std::env;
use std::ffi::{OsStr, OsString};

use anyhow::{Result, bail};
use becalm_host::index_store::BindThreshold;
use tempfile::TempDir;

use crate::index::variables::Variable;
use crate::index::{file, make};
use crate::path::dirs_of;
use crate::progress::Silent;
use crate::run::by_own;
use crate::run::program::{self, Program, Start};

/// The index; dropping it removes the folder.
#[derive(Debug)]
pub struct ScratchIndex {
    variables: Vec<Variable>,
    _folder: TempDir,
}

impl ScratchIndex {
    /// Makes the index that `becalm run` would make of the program of a command.
    ///
    /// # Errors
    /// Returns an error if there is no such index.
    pub fn of(command: &OsStr) -> Result<Self> {
        let program = Program::look(program::find(command)?)?;
        match &program.start {
            Start::Static => bail!("a static program"),
            Start::Secure => bail!("it starts in secure-execution mode"),
            Start::Musl => bail!("musl's loader has no audit modules"),
            Start::Loader(_) => {}
        }
        let folder = tempfile::tempdir()?;
        let output = folder.path().canonicalize()?.join("index.so");
        let options = make::Options {
            programs: vec![program.real.clone()],
            output: Some(output.clone()),
            bind_threshold: Some(BindThreshold::default()),
            dirs: dirs_of(env::var_os("LD_LIBRARY_PATH")),
            ..make::Options::default()
        };
        make::index(&options, &Silent)?;
        let indexed = by_own(file::open(&output)?, &program)?;
        Ok(Self { variables: indexed.variables(false, &[], false), _folder: folder })
    }

    /// Returns the environment of this process with the index.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let is_changed = |name: &OsString| self.variables.iter().any(|it| *name == *it.name);
        let kept = env::vars_os().filter(|(name, _)| !is_changed(name));
        let set = self.variables.iter().filter_map(|it| Some((it.name.into(), it.value.clone()?)));
        kept.chain(set).collect()
    }
}
