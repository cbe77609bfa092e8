//! The strategies of becalm, in the form that trials use.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::compare::apply::{self, Site};
use crate::compare::kind::Kind;
use crate::compare::trials::Applied;
use crate::compare::trials::lab::Lab;
use becalm_lib::compare::apply::Variables;
use becalm_lib::index::variables::TUNABLES;

/// A strategy, the untouched store, or static programs in place of the dynamic ones.
pub(super) struct Put {
    kind: Kind,
    variables: Variables,
    /// Programs that cannot be linked statically, with the reason.
    unlinked: Vec<(PathBuf, String)>,
}

impl Put {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, variables: Vec::new(), unlinked: Vec::new() }
    }
}

impl Applied for Put {
    fn apply(&mut self, lab: &Lab) -> Result<()> {
        if self.kind == Kind::Static {
            self.unlinked = lab.link_statically()?;
            return Ok(());
        }
        let mut programs = lab.files(|object| object.path.contains("/bin/"));
        if self.kind.is_of_closure() {
            // The libraries that programs open by their paths.
            programs.extend(lab.files(|object| object.path.ends_with("/plugin.so")));
        }
        let site = Site {
            programs: &programs,
            objects: &lab.objects(),
            prefixes: std::slice::from_ref(&lab.store),
            stores: lab.store.as_os_str(),
            index: lab.outside("index.so"),
        };
        // The remark on unchanged files is dropped: the trials show their effect.
        self.variables = apply::apply(self.kind, &site)?.variables;
        Ok(())
    }

    fn start(&self, program: &Path, variables: &[(&str, OsString)]) -> Result<Command> {
        if let Some((_, why)) = self.unlinked.iter().find(|(unlinked, _)| unlinked == program) {
            bail!("it cannot be linked statically: {why}");
        }
        let mut command = Command::new(program);
        apply::plain(&mut command);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        for (name, value) in variables {
            let own = self.variables.iter().find(|(known, _)| known == name);
            match own {
                // The variable is a list, in which the setting of the index must remain.
                Some((_, own)) if *name == TUNABLES => {
                    command.env(name, [own.as_os_str(), value].join(OsStr::new(":")));
                }
                _ => {
                    command.env(name, value);
                }
            }
        }
        Ok(command)
    }
}
