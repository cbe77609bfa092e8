//! `becalm` without a command: the state of this machine, and what to type next.

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::Result;
use becalm_lib::doctor::{Report, Session, examine};
use becalm_lib::escape::shown;
use becalm_lib::fix::options::strategy_of_fix;
use becalm_lib::path::path_bytes;
use becalm_lib::run::program;
use becalm_lib::words::counted;
use clap::builder::TypedValueParser;

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

/// Returns the ways to use `becalm fix` or `becalm index` if one of them was typed without what it
/// needs.
pub(crate) fn ways(arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str()?;
    let (needs, ways) = match command {
        "fix" => ("a strategy and files: becalm fix --with STRATEGY PATH...", strategies()),
        "index" => ("what to index", INDEX.map(|(way, does)| (way.into(), does.into())).into()),
        _ => return None,
    };
    let mut text = format!("{command} needs {needs}\n\n");
    for (way, does) in ways {
        text.push_str(&format!("  {way:<31}  {does}\n"));
    }
    text.push_str(
        "\nbecalm advise PROGRAM says what each gains on a program, and gives the command\n",
    );
    Some(text)
}

/// Returns the strategies of `becalm fix`, as its help has them.
fn strategies() -> Vec<(String, String)> {
    let parser = strategy_of_fix();
    let values = parser.possible_values().into_iter().flatten();
    values
        .map(|it| {
            (it.get_name().into(), it.get_help().map(ToString::to_string).unwrap_or_default())
        })
        .collect()
}

/// The ways of `becalm index`.
const INDEX: [(&str, &str); 4] = [
    ("becalm index STORE...", "the packages of stores, such as /nix/store"),
    ("becalm index --program PROGRAM", "one program, with its symbol bindings"),
    ("becalm index --paths-from FILE", "what a traced run searched"),
    ("becalm index --update", "the index that there is, made again"),
];
