//! Links the programs of the trials statically, for the column of `--static`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compare::apply::plain;
use crate::compare::trials::Applied;
use crate::compare::trials::error::TrialError;
use crate::compare::trials::lab::Lab;

/// Static programs that replace the dynamic ones.
#[derive(Default)]
pub(super) struct StaticBuild {
    /// Programs that cannot be linked statically, with the reason.
    unlinked: BTreeMap<PathBuf, String>,
}

impl Applied for StaticBuild {
    fn apply(&mut self, lab: &Lab) -> Result<(), TrialError> {
        for (program, error) in lab.link_statically()? {
            self.unlinked.insert(program, error);
        }
        Ok(())
    }

    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command, TrialError> {
        if let Some(why) = self.unlinked.get(program) {
            return Err(TrialError::NotStatic(why.clone()));
        }
        let mut command = Command::new(program);
        plain(&mut command);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}
