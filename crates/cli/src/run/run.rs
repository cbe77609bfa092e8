//! `becalm run`: one program, calmed by an index, and what it starts.
//!
//! [`program`] finds out how the command is started and [`kept`] what the cache has for it; then
//! becalm becomes the program. That is a few system calls: nothing is predicted, no loader asked
//! and no index read as a whole. If an index has to be made first, [`making`] has another process
//! make it, and the program starts without. Whatever goes wrong, the program starts.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::elf::machine_name;
use becalm_core::index::Start as Known;
use becalm_core::search::Stores;
use becalm_lib::index::file;
use becalm_lib::index::file::Opened;
use becalm_lib::index::{places, platforms, variables};
use becalm_lib::path::dirs_of;
use becalm_lib::path::path_bytes;
use becalm_lib::words::words;

use crate::exit_code::ExitStatus;
use crate::run::args::RunArgs;
use crate::run::kept::{Kept, Place};
use crate::run::making;
use crate::run::program::{self, Found, Program, Start};
use crate::terminal;

/// What the variables of a start are made from.
struct Calm {
    index: Opened,
    static_tls: u64,
}

/// Becomes the program; comes back only if that fails.
///
/// # Errors
/// If the command cannot be found or started; with `--strict` if it cannot be calmed.
pub(crate) fn run(args: &RunArgs) -> Result<ExitStatus> {
    let [name, arguments @ ..] = args.command.as_slice() else {
        bail!("run: no command; becalm run [OPTIONS] -- CMD [ARGS]...");
    };
    let found = program::find(name)?;
    let path = found.path.clone();
    let mut command = Command::new(&path);
    command.arg0(name).args(arguments);
    match calm(args, found) {
        Ok(Some(calm)) => {
            set(&mut command, &calm);
            if args.no_bind {
                let switches = env::var_os(variables::SWITCHES);
                let switches = variables::with_switch(switches.as_deref(), variables::NO_BIND);
                command.env(variables::SWITCHES, switches);
            }
            // To be closed by execve, which costs no call.
            std::mem::forget(calm);
        }
        Ok(None) => {}
        Err(error) if args.strict => return Err(error),
        // The start fails as well, and says so itself.
        Err(_) if args.quiet || path.symlink_metadata().is_err() => {}
        Err(error) => terminal::complain(&error.context("started without an index")),
    }
    let error = command.exec();
    Err(anyhow!("{}: {}", path.display(), words(&error)))
}

/// What a program is to be started with; `None` for nothing.
fn calm(args: &RunArgs, found: Found) -> Result<Option<Calm>> {
    let path = found.path.clone();
    let program = Program::look(found)?;
    match &program.start {
        // Nothing to calm in it; what it starts may have.
        Start::Static => args.index.as_deref().map(|index| of_session(args, index)).transpose(),
        Start::Secure if args.strict => {
            bail!("{}: runs with other rights: its loader takes no LD_AUDIT", path.display())
        }
        Start::Secure => {
            if !args.quiet {
                let why = "runs with other rights: its loader takes no LD_AUDIT; started as it is";
                terminal::note(path_bytes(&path).as_ref(), why);
            }
            Ok(None)
        }
        Start::Loader { interpreter, .. } if is_of_musl(interpreter) => bail!(
            "{}: musl's loader knows no audit modules, so an index cannot calm it; becalm fix \
             --with absolute or farm can",
            path.display()
        ),
        Start::Loader { .. } => of_program(args, &program),
    }
}

/// musl's loader is called `ld-musl-ARCH.so.1`, wherever it is.
fn is_of_musl(interpreter: &[u8]) -> bool {
    let name = interpreter.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-musl-")
}

/// The index that was named, for what a program starts.
fn of_session(args: &RunArgs, path: &Path) -> Result<Calm> {
    let index = opened(args, path)?;
    let static_tls = index.session_static_tls()?;
    Ok(Calm { index, static_tls })
}

fn opened(args: &RunArgs, path: &Path) -> Result<Opened> {
    let index = file::open(path)?;
    if !args.quiet {
        crate::terminal::tell_of_age(&index);
    }
    Ok(index)
}

/// The index for a program: the one that was named, the default one if the program is in one of
/// its stores, else one that is kept for it; `None` if that is not made yet.
fn of_program(args: &RunArgs, program: &Program) -> Result<Option<Calm>> {
    let (index, known) = match &args.index {
        Some(path) => {
            let index = opened(args, path)?;
            let known = known_to(&index, program)?;
            (index, known)
        }
        None => match default_for(args, program)? {
            Some(found) => found,
            None => return kept_for(args, program),
        },
    };
    let known = match known {
        Some(known) => known,
        None => need_of_stranger(args, program),
    };
    with_need(index, program, known).map(Some)
}

/// What a program needs that the index does not know: it may take more static TLS than others. The
/// index that is kept for it says so; if there is none yet, its start is followed this once.
fn need_of_stranger(args: &RunArgs, program: &Program) -> Known {
    if let Ok(place) = place_of(args, program) {
        match place.look() {
            Ok(Kept::Index { index, .. }) => {
                if let Ok(Some(known)) = known_to(&index, program) {
                    return known;
                }
            }
            Ok(Kept::Nothing) => {
                let _ = making::elsewhere(&place, program, &args.store.prefixes());
            }
            Ok(Kept::Failed(_)) | Err(_) => {}
        }
    }
    making::need(program, &args.store.prefixes())
}

fn place_of(args: &RunArgs, program: &Program) -> Result<Place> {
    let list = env::var_os("LD_LIBRARY_PATH");
    let dirs: Vec<PathBuf> = list.iter().flat_map(|list| dirs_of(&[list])).collect();
    Place::of(program, &dirs, &args.store.prefixes())
}

/// What the start of a program needs beside the index.
fn with_need(index: Opened, program: &Program, known: Known) -> Result<Calm> {
    if known.no_start {
        bail!(
            "{}: a library of it wants thread-local storage aligned as no loader under an audit \
             module can",
            program.real.display()
        );
    }
    let static_tls = index.session_static_tls()?.max(u64::from(known.static_tls));
    Ok(Calm { index, static_tls })
}

/// What an index knows of a program. The machine must be the program's.
fn known_to(index: &Opened, program: &Program) -> Result<Option<Known>> {
    let shown = || index.path.display().to_string();
    if let Start::Loader { target, .. } = program.start
        && index.index.target() != target
    {
        bail!(
            "{}: an index for {}, and {} is for {}",
            shown(),
            machine_name(index.index.target().machine),
            program.real.display(),
            machine_name(target.machine)
        );
    }
    index.index.program(path_bytes(&program.real).as_ref()).with_context(shown)
}

/// The default index, if the program is in one of its stores, and what it knows of the program.
fn default_for(args: &RunArgs, program: &Program) -> Result<Option<(Opened, Option<Known>)>> {
    let Some(index) = default_index()? else { return Ok(None) };
    let Start::Loader { target, .. } = program.start else { return Ok(None) };
    if index.index.target() != target {
        return Ok(None);
    }
    let known = known_to(&index, program)?;
    let is_in_store = || -> Result<bool> {
        let roots = index.index.roots().with_context(|| index.path.display().to_string())?;
        Ok(Stores::of(&roots).contain(&path_bytes(&program.real)))
    };
    if known.is_none() && !is_in_store()? {
        return Ok(None);
    }
    if !args.quiet {
        crate::terminal::tell_of_age(&index);
    }
    Ok(Some((index, known)))
}

/// The user's index, else the system's.
fn default_index() -> Result<Option<Opened>> {
    for path in places::of_sessions() {
        if let Some(index) = file::open_if_there(&path)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The index that is kept for a program. If there is none, or it was not compared with the files
/// for a while, another process is to see to that.
fn kept_for(args: &RunArgs, program: &Program) -> Result<Option<Calm>> {
    let place = place_of(args, program)?;
    match place.look()? {
        Kept::Index { index, is_stale } => {
            if is_stale {
                // The index is good enough for this start.
                let _ = making::elsewhere(&place, program, &args.store.prefixes());
            }
            let known = known_to(&index, program)?.unwrap_or_default();
            with_need(*index, program, known).map(Some)
        }
        Kept::Failed(why) => bail!("{why}"),
        Kept::Nothing if args.strict => {
            making::here(&place, program, &args.store.prefixes())?;
            let index = file::open(&place.path())?;
            let known = known_to(&index, program)?.unwrap_or_default();
            with_need(index, program, known).map(Some)
        }
        Kept::Nothing => making::elsewhere(&place, program, &args.store.prefixes()).map(|()| None),
    }
}

/// Sets the variables of a command.
fn set(command: &mut Command, calm: &Calm) {
    let now = |name: &str| env::var_os(name);
    let module = platforms::audit_path(&calm.index);
    let audit: Option<OsString> = now(variables::AUDIT);
    command.env(variables::AUDIT, variables::with_module(audit.as_deref(), &module));
    let tunables = now(variables::TUNABLES);
    let tunables = variables::with_static_tls(tunables.as_deref(), calm.static_tls);
    command.env(variables::TUNABLES, OsStr::new(&tunables));
}
