//! The flags → the commands that are compared.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};
use becalm_host::bench::Variant;
use becalm_host::trace::Command;
use bstr::ByteSlice;

use crate::flags::BenchFlags;
use crate::output::path_bytes;
use crate::sanitize::shown;

/// What a program is started with where nothing is said: it ends by itself.
const DEFAULT_ARGUMENT: &str = "--version";

/// The variants: the program, the others, the program in other environments.
///
/// # Errors
/// A `--run` line that is not closed, an `--env` without a name, a folder.
pub(super) fn of(asked: &BenchFlags) -> Result<Vec<Variant>> {
    let args = arguments(asked.run.as_deref(), &asked.args)?;
    let named = |program: &Path| -> Result<Variant> {
        let name = shown(path_bytes(program).as_bstr());
        if program.is_dir() {
            bail!("{name}: a directory, not a program");
        }
        Ok(Variant { name, command: Command::new(program, args.iter().cloned()), room: None })
    };
    let first = named(&asked.program)?;
    let mut variants = vec![first.clone()];
    for program in &asked.against {
        variants.push(named(program)?);
    }
    for setting in &asked.env {
        let command = Command { env: Some(environment(setting)?), ..first.command.clone() };
        variants.push(Variant { name: shown(setting.as_bytes().as_bstr()), command, room: None });
    }
    Ok(variants)
}

/// The arguments of a `--run` line, of `-- ARGS`, or the usual one.
///
/// # Errors
/// The line has a quote that is not closed.
pub(crate) fn arguments(run: Option<&str>, args: &[OsString]) -> Result<Vec<OsString>> {
    match run {
        Some(line) => words(line),
        None if args.is_empty() => Ok(vec![DEFAULT_ARGUMENT.into()]),
        None => Ok(args.to_vec()),
    }
}

/// A line of arguments, taken apart as a shell would: quotes and backslashes count,
/// variables and wildcards do not.
fn words(line: &str) -> Result<Vec<OsString>> {
    match shlex::split(line) {
        Some(words) => Ok(words.into_iter().map(OsString::from).collect()),
        None => bail!("--run {}: a quote is not closed", shown(line.as_bytes().as_bstr())),
    }
}

/// Our environment with one variable set, or taken away.
fn environment(setting: &OsStr) -> Result<Vec<(OsString, OsString)>> {
    let (name, value) = match setting.as_bytes().split_once_str("=") {
        Some((name, value)) => (name, Some(value)),
        None => (setting.as_bytes(), None),
    };
    if name.is_empty() {
        bail!("--env {}: no name", shown(setting.as_bytes().as_bstr()));
    }
    let others = env::vars_os().filter(|(other, _)| other.as_bytes() != name);
    let own = value.map(|value| (OsStr::from_bytes(name).into(), OsStr::from_bytes(value).into()));
    Ok(others.chain(own).collect())
}

/// In what a command's environment differs from ours; `None` for a variable it lacks.
#[must_use]
pub(crate) fn changed_variables(command: &Command) -> Vec<(OsString, Option<OsString>)> {
    let Some(own) = &command.env else { return Vec::new() };
    let set = own
        .iter()
        .filter(|(name, value)| env::var_os(name).as_ref() != Some(value))
        .map(|(name, value)| (name.clone(), Some(value.clone())));
    let taken = env::vars_os()
        .filter(|(name, _)| own.iter().all(|(other, _)| other != name))
        .map(|(name, _)| (name, None));
    set.chain(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_as_a_shell_would() {
        assert_eq!(words(r#"-e "a b" 'c d' e\ f"#).expect("whole"), ["-e", "a b", "c d", "e f"]);
        assert_eq!(words("").expect("whole"), Vec::<OsString>::new());
        assert!(words("'open").is_err());
    }

    #[test]
    fn a_variable_is_set_emptied_or_taken_away() {
        let value = |setting: &str| {
            let variables = environment(OsStr::new(setting)).expect("a name");
            let found: Vec<_> = variables.into_iter().filter(|(name, _)| name == "PATH").collect();
            assert!(found.len() <= 1);
            found.into_iter().next().map(|(_, value)| value)
        };
        assert_eq!(value("PATH=/x=y"), Some("/x=y".into()));
        assert_eq!(value("PATH="), Some("".into()));
        assert_eq!(value("PATH"), None);
        assert!(environment(OsStr::new("=x")).is_err());
    }
}
