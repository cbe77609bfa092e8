//! The audit module that contains a table: a built-in one or a given one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use becalm_audit::MODULES;
use becalm_core::elf;
use becalm_core::index::{Target, embed, encode};
use becalm_host::index_store::{Indexed, MachineIndex};

use crate::path::at;

/// The reason if no object has a loader.
pub(super) const NOTHING: &str = "nothing to index: no ELF object with a loader";

/// The source of modules: the given one with its machine, or the built-in ones.
pub struct Modules(Option<(Target, Vec<u8>)>);

/// An index in its final form.
pub struct Sealed {
    /// The content of the index.
    pub machine: MachineIndex,
    /// Its bytes: the module with the table.
    pub file: Vec<u8>,
    /// Bytes of the table alone.
    pub table: usize,
    /// The machines that were met and left out, with the number of their objects.
    pub others: Vec<(Target, usize)>,
}

impl Modules {
    /// The module at `path`, or the built-in ones.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not an object.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let bytes = fs::read(path).with_context(at(path))?;
        let ident = elf::ident(&bytes).ok_or_else(|| anyhow!("{}: no module", path.display()))?;
        Ok(Self(Some((Target::of(&ident), bytes))))
    }

    /// Returns the module of a machine.
    fn of(&self, target: Target) -> Option<&[u8]> {
        let is_for = |module: &[u8]| elf::ident(module).is_some_and(|it| Target::of(&it) == target);
        match &self.0 {
            Some((given, bytes)) => (*given == target).then_some(bytes),
            None => MODULES.iter().map(|(_, module)| *module).find(|module| is_for(module)),
        }
    }

    /// Returns the bytes of an index with this table; `None` if there is no module for its machine.
    #[must_use]
    pub fn around(&self, target: Target, table: &[u8]) -> Option<Vec<u8>> {
        embed(self.of(target)?, table).ok()
    }

    /// True if sealing the table of a file again would give the same file: its module is the
    /// current one.
    pub fn has_sealed(&self, target: Target, table: &[u8], file: &[u8]) -> bool {
        self.around(target, table).is_some_and(|sealed| sealed == file)
    }

    /// Returns the index of the machine with most objects, of the machines that have a module.
    ///
    /// # Errors
    /// Returns an error if there is no module for any of the machines, or if the index exceeds a
    /// limit of the format.
    pub fn seal(&self, indexed: Indexed) -> Result<Sealed> {
        let mut machines = indexed.machines;
        if machines.is_empty() {
            bail!(NOTHING);
        }
        let counted = |machine: &MachineIndex| (machine.target, machine.index.objects.len());
        let Some(at) = machines.iter().position(|machine| self.of(machine.target).is_some()) else {
            let objects = elf::machine_name(machines[0].target.machine);
            match &self.0 {
                Some((given, _)) => {
                    let given = elf::machine_name(given.machine);
                    bail!("the module is for {given}, the objects are for {objects}")
                }
                None => bail!(
                    "no audit module for {objects} is built in; becalm index takes one with --module"
                ),
            }
        };
        let machine = machines.remove(at);
        let module = self.of(machine.target).unwrap_or_default();
        let table = encode(&machine.index, machine.target)?;
        let file = embed(module, &table)?;
        let others = machines.iter().map(counted).chain(indexed.without_loader).collect();
        Ok(Sealed { machine, file, table: table.len(), others })
    }
}
