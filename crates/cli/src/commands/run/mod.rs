//! `becalm run`: one program, calmed by an index, and what it starts.
//!
//! [`program`] finds out what the command is, [`of_program`] makes an index for it where none
//! is at hand; then becalm becomes the program.

mod of_program;
mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Result, anyhow, bail};
use becalm_core::elf::machine_name;
use becalm_core::search::Stores;
use becalm_host::OsFs;

use self::program::{Program, Start};
use super::index::file::{self, Opened};
use super::index::{places, platforms, variables};
use crate::exit_code::ExitStatus;
use crate::flags::RunFlags;
use crate::output::{self, path_bytes, words};

/// Becomes the program; comes back only where that fails.
///
/// # Errors
/// Where the command cannot be found or started, cannot be calmed, or there is no index.
pub(crate) fn run(asked: &RunFlags) -> Result<ExitStatus> {
    let [name, args @ ..] = asked.command.as_slice() else {
        bail!("run: no command; becalm run [OPTIONS] -- CMD [ARGS]...");
    };
    let os = OsFs::new();
    let path = program::find(name)?;
    let program = Program::look(&os, &path)?;
    let calm = match &program.start {
        // Nothing to calm in it; what it starts may have.
        Start::Static => explicit(asked)?,
        Start::Secure => {
            let why = "runs with other rights: its loader takes no LD_AUDIT; started as it is";
            output::note(path_bytes(&path).as_ref(), why);
            None
        }
        Start::Loader(_) => Some(index_for(&os, asked, &program)?),
    };
    let mut command = Command::new(&path);
    command.arg0(name).args(args);
    if let Some((index, static_tls)) = calm {
        set(&mut command, &index, static_tls);
    }
    let error = command.exec();
    Err(anyhow!("{}: {}", path.display(), words(&error)))
}

/// The index that was named.
fn explicit(asked: &RunFlags) -> Result<Option<(Opened, u64)>> {
    let opened = asked.index.as_deref().map(file::open).transpose()?;
    let with_need = |index: Opened| index.static_tls().map(|need| (index, need));
    opened.map(with_need).transpose()
}

/// The index for a program, and the static TLS that it or any program of the index needs.
fn index_for(os: &OsFs, asked: &RunFlags, program: &Program) -> Result<(Opened, u64)> {
    let need = program.static_tls(os)?;
    let index = match &asked.index {
        Some(path) => file::open(path)?,
        None => match default_for(program)? {
            Some(index) => index,
            None => of_program::index(os, asked, program)?,
        },
    };
    index.tell_of_age();
    if index.index.target() != program.target() {
        let (has, wants) = (index.index.target().machine, program.target().machine);
        bail!(
            "{}: an index for {}, and {} is for {}",
            index.path.display(),
            machine_name(has),
            program.path.display(),
            machine_name(wants)
        );
    }
    let static_tls = need.max(index.static_tls()?);
    Ok((index, static_tls))
}

/// The default index, where the program lies in one of its stores.
fn default_for(program: &Program) -> Result<Option<Opened>> {
    let Some(path) = places::found() else { return Ok(None) };
    let index = file::open(&path)?;
    let path = path_bytes(&program.real);
    let has = index.index.target() == program.target()
        && Stores::of(&index.index.roots()?).contain(&path);
    Ok(has.then_some(index))
}

/// Sets the variables of a command.
fn set(command: &mut Command, index: &Opened, static_tls: u64) {
    let now = |name: &str| env::var_os(name);
    let module = platforms::audit_path(index);
    let audit: Option<OsString> = now(variables::AUDIT);
    command.env(variables::AUDIT, variables::with_module(audit.as_deref(), &module));
    if static_tls > 0 {
        let tunables = now(variables::TUNABLES);
        let tunables = variables::with_static_tls(tunables.as_deref(), static_tls);
        command.env(variables::TUNABLES, OsStr::new(&tunables));
    }
}
