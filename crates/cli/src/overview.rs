//! `becalm` without a command: the state of this machine, and what to type next.

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::Result;
use becalm_lib::doctor::{Report, Session, examine};
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::run::program;
use becalm_lib::words::counted;

use crate::doctor::text::switched_on;
use crate::exit_code::ExitStatus;

/// Prints the state in five lines.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn run() -> Result<ExitStatus> {
    let Report { calmed, alone, .. } = examine(&Session::of_process(), None);
    let session = if calmed { "uses an index" } else { "uses no index" };
    let on = switched_on(alone);
    let kept = counted(alone.kept, "index", "indexes");
    let next = match calmed || alone.switched_on > 0 {
        true => "becalm doctor",
        false => "becalm run -- PROGRAM; becalm on --dry-run; becalm --help",
    };
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "becalm {version}: starts programs without the loader's search\n\
         session      {session}\n\
         switched on  {on}\n\
         becalm run   keeps {kept}\n\
         next         {next}\n"
    );
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitStatus::Fine)
}

/// Returns what to type instead of `becalm PROGRAM`; `None` if there is no such program.
#[must_use]
pub(crate) fn hint(arguments: &[OsString]) -> Option<String> {
    let name = arguments.get(1)?;
    let found = program::find(name).ok()?;
    if !found.path.is_file() {
        return None;
    }
    let (name, path) =
        (shown(path_bytes(name.as_ref()).as_ref()), shown(path_bytes(&found.path).as_ref()));
    Some(format!(
        "'{name}' is a program, not a command of becalm\n\n  \
         becalm run -- {name}\n  becalm check {path}\n"
    ))
}
