//! Converts the flags into the commands that are compared.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};
use becalm_host::bench::Variant;
use becalm_host::trace::Command;
use becalm_lib::bench::INDEXED;
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::scratch_index::ScratchIndex;
use bstr::{BStr, BString, ByteSlice};

use crate::bench::args::BenchArgs;

/// Default argument of a program, which makes it exit by itself.
const DEFAULT_ARGUMENT: &str = "--version";

/// Returns the variants: the program, the others, the program in other environments.
///
/// # Errors
/// Returns an error if a quote of a `--run` line is not closed, if an `--env` cannot be parsed, or
/// for a folder.
pub(crate) fn of(args: &BenchArgs) -> Result<Vec<Variant>> {
    let program_args = arguments(args.run.as_deref(), &args.args)?;
    let named = |program: &Path| -> Result<Variant> {
        let name = shown(path_bytes(program).as_bstr());
        if program.is_dir() {
            bail!("{name}: a directory, not a program");
        }
        Ok(variant(name, Command::new(program, program_args.iter().cloned())))
    };
    let first = named(&args.program)?;
    let mut variants = vec![first.clone()];
    for program in &args.against {
        variants.push(named(program)?);
    }
    if args.becalm {
        let name = "by becalm run, nothing read ahead";
        variants.push(by_run(&first, name, &["run", "--no-ahead", "--"])?);
        variants.push(by_run(&first, "by becalm run", &["run", "--"])?);
    }
    for text in &args.env {
        let settings = settings(text.as_bytes().as_bstr())?;
        let names: Vec<String> = settings.iter().map(Setting::words).collect();
        let mut name = names.join(", ");
        // Only the values distinguish two variants of the same variables.
        if args.env.len() > 1 {
            let texts = settings.iter().map(|setting| &setting.text);
            name = shown(bstr::join(" ", texts).as_bstr());
        }
        let command = Command { env: Some(environment(&settings)), ..first.command.clone() };
        variants.push(variant(name, command));
    }
    Ok(variants)
}

fn variant(name: impl Into<String>, command: Command) -> Variant {
    Variant { name: name.into(), command, enter: None }
}

/// Returns a command as `becalm run` starts it, with the words before it.
fn by_run(first: &Variant, name: &str, before: &[&str]) -> Result<Variant> {
    let Command { program, args, .. } = &first.command;
    let args =
        before.iter().map(OsString::from).chain([program.clone()]).chain(args.iter().cloned());
    Ok(variant(name, Command::new(env::current_exe()?, args)))
}

/// Returns the first variant with an index of its program, or the reason why there is none.
pub(crate) fn indexed(first: &Variant) -> Result<(Variant, ScratchIndex)> {
    if env::var_os("LD_AUDIT").is_some_and(|list| !list.is_empty()) {
        bail!("this session sets LD_AUDIT already");
    }
    let index = ScratchIndex::of(&first.command.program)?;
    let command = Command { env: Some(index.environment()), ..first.command.clone() };
    Ok((variant(INDEXED, command), index))
}

/// Returns the arguments of a `--run` line, of `-- ARGS`, or the default one.
///
/// # Errors
/// Returns an error if a quote in the line is not closed.
pub(crate) fn arguments(run: Option<&str>, program_args: &[OsString]) -> Result<Vec<OsString>> {
    match run {
        Some(line) => words(line),
        None if program_args.is_empty() => Ok(vec![DEFAULT_ARGUMENT.into()]),
        None => Ok(program_args.to_vec()),
    }
}

/// Splits a line of arguments as a shell does: quotes and backslashes count, variables and
/// wildcards do not.
fn words(line: &str) -> Result<Vec<OsString>> {
    match shlex::split(line) {
        Some(words) => Ok(words.into_iter().map(OsString::from).collect()),
        None => bail!("--run {}: a quote is not closed", shown(line.as_bytes().as_bstr())),
    }
}

/// One variable of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// The text of the flag.
    text: BString,
    name: BString,
    /// `None` removes the variable.
    value: Option<BString>,
}

impl Setting {
    /// Parses `NAME=VALUE`, or `NAME` for a variable that is removed.
    fn parse(text: &BStr) -> Result<Self> {
        let (name, value) = match text.split_once_str("=") {
            Some((name, value)) => (name, Some(value.into())),
            None => (text.as_bytes(), None),
        };
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || name[0].is_ascii_digit() || !name.iter().all(is_of_name) {
            bail!("--env {}: not the name of a variable, or NAME=VALUE", shown(text));
        }
        Ok(Self { text: text.into(), name: name.into(), value })
    }

    /// Returns the change in words.
    fn words(&self) -> String {
        let name = shown(self.name.as_bstr());
        match &self.value {
            Some(value) if value.is_empty() => format!("{name} empty"),
            Some(_) => format!("{name} set"),
            None => format!("without {name}"),
        }
    }
}

/// Returns the settings of one `--env`: a single one, or the `export` and `unset` lines of a shell.
///
/// # Errors
/// Returns an error if a setting has no name, a quote is not closed, or a command is neither of the
/// two.
fn settings(text: &BStr) -> Result<Vec<Setting>> {
    let text = text.trim_ascii();
    if ![&b"export"[..], b"unset"].iter().any(|verb| is_command(text, verb)) {
        return Ok(vec![Setting::parse(text.as_bstr())?]);
    }
    let Some(words) = shlex::bytes::split(text) else {
        bail!("--env {}: a quote is not closed", shown(text.as_bstr()));
    };
    let mut settings = Vec::new();
    let mut exports = true;
    for word in words {
        match word.as_slice() {
            b"export" => exports = true,
            b"unset" => exports = false,
            word => {
                let setting = Setting::parse(word.as_bstr())?;
                if setting.value.is_some() != exports {
                    let verb = if exports { "export" } else { "unset" };
                    bail!("--env: {verb} {}: not a setting", shown(word.as_bstr()));
                }
                settings.push(setting);
            }
        }
    }
    Ok(settings)
}

/// True for a line that begins with the command and a space.
fn is_command(line: &[u8], command: &[u8]) -> bool {
    line.strip_prefix(command).and_then(<[u8]>::first).is_some_and(u8::is_ascii_whitespace)
}

/// Returns our environment with variables set or removed.
fn environment(settings: &[Setting]) -> Vec<(OsString, OsString)> {
    let mut all: BTreeMap<OsString, OsString> = env::vars_os().collect();
    for Setting { name, value, .. } in settings {
        let name = OsStr::from_bytes(name).to_owned();
        match value {
            Some(value) => all.insert(name, OsStr::from_bytes(value).into()),
            None => all.remove(&name),
        };
    }
    all.into_iter().collect()
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
        let value = |text: &str| {
            let variables = environment(&settings(text.into()).expect("a name"));
            let found: Vec<_> = variables.into_iter().filter(|(name, _)| name == "PATH").collect();
            assert!(found.len() <= 1);
            found.into_iter().next().map(|(_, value)| value)
        };
        assert_eq!(value("PATH=/x=y"), Some("/x=y".into()));
        assert_eq!(value("PATH="), Some("".into()));
        assert_eq!(value("PATH"), None);
        for wrong in ["=x", "1A=x", "becalm: no index", "A-B"] {
            assert!(settings(wrong.into()).is_err(), "{wrong}");
        }
        let words = |text: &str| settings(text.into()).expect("names")[0].words();
        assert_eq!([words("A=1"), words("A="), words("A")], ["A set", "A empty", "without A"]);
    }

    #[test]
    fn the_lines_of_a_shell_are_one_variant_of_several_variables() {
        let texts = |text: &str| -> Vec<BString> {
            settings(text.into()).expect("lines").into_iter().map(|it| it.text).collect()
        };
        assert_eq!(texts("A=1 B=2"), ["A=1 B=2"], "one value with a space in it");
        assert_eq!(texts("exported=1"), ["exported=1"]);
        assert_eq!(texts("export A=1 B='2 3'"), ["A=1", "B=2 3"]);
        let printed = "export LD_AUDIT='/i/it'\\''s.so.d/$PLATFORM'\nunset B\nexport C=x:y\n";
        assert_eq!(texts(printed), ["LD_AUDIT=/i/it's.so.d/$PLATFORM", "B", "C=x:y"]);
        for wrong in ["export A", "unset A=1", "export 'A=1", "export =1", "export A=1; ls"] {
            assert!(settings(wrong.into()).is_err(), "{wrong}");
        }
    }
}
