//! Builds the module and the index for a trial: the module with its Makefile, and the index in the
//! same way as the command line tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::index::{embed, encode};
use becalm_host::OsFs;
use becalm_host::index_store::{IndexOptions, Indexed, index_stores};

use crate::command::succeed;
use crate::root;

/// Returns the compiler of a machine, as `uname -m` names it, with its arguments: the one that
/// `CC_<MACHINE>` names, else the usual one.
pub(crate) fn compiler(machine: &str) -> String {
    let usual = match root::triple(machine) {
        Some(triple) => format!("{triple}-gcc"),
        None if machine == "i386" => "gcc -m32".to_owned(),
        None => "cc".to_owned(),
    };
    std::env::var(format!("CC_{}", machine.to_uppercase())).unwrap_or(usual)
}

/// Builds the module into `folder`, with a compiler ([`compiler`]) that may have arguments.
///
/// # Errors
/// Returns an error if `make` or the C compiler is missing or fails.
pub fn module(compiler: &str, folder: &Path) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/audit/module");
    let out = folder.join("becalm-audit.so");
    let mut make = Command::new("make");
    make.args(["-s", "-C"]).arg(&sources);
    make.args([format!("OUT={}", out.display()), format!("CC={compiler}")]);
    succeed(&mut make).context("the module cannot be built (Debian: make, gcc)")?;
    Ok(out)
}

/// Indexes stores and writes the index of this machine's objects to `out`.
///
/// # Errors
/// Returns an error if nothing was indexed or `out` cannot be written.
pub fn index(stores: &[PathBuf], dirs: &[PathBuf], module: &Path, out: &Path) -> Result<Indexed> {
    let os = OsFs::new();
    let options = IndexOptions { stores, dirs, ..IndexOptions::default() };
    let indexed = index_stores(&os, options);
    let module = std::fs::read(module).with_context(|| module.display().to_string())?;
    for machine in &indexed.machines {
        let table = encode(&machine.index, machine.target)?;
        if let Ok(file) = embed(&module, &table) {
            std::fs::write(out, file).with_context(|| out.display().to_string())?;
            return Ok(indexed);
        }
    }
    let errors: Vec<String> = indexed.errors.iter().map(ToString::to_string).collect();
    anyhow::bail!("the stores have no object of the module's machine: {}", errors.join("; "))
}
