//! The text of a script: its `#!` line, and the `exec` of a wrapper.

use becalm_core::path;
use bstr::{BStr, BString, ByteSlice};

use crate::run::program::words_of_script;

/// Variables that change what a loader finds.
const VARIABLES: [&str; 3] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"];

/// A script that the kernel executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// The interpreter of the `#!` line.
    pub(super) interpreter: BString,
    /// The program that `env` starts, if the interpreter is `env`.
    pub(super) by_env: Option<BString>,
    /// The words after the interpreter, or after what `env` starts.
    arguments: Vec<BString>,
    /// The lines after the first one.
    text: BString,
}

/// The program that a wrapper script becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    /// The program, or a name that is searched along `PATH`.
    pub(super) program: BString,
    /// The `env` by which it is started.
    pub(super) by_env: Option<BString>,
    /// The [`VARIABLES`] that the wrapper sets.
    pub(super) sets: Vec<&'static str>,
}

impl Script {
    /// Parses a script; `None` if its first line names no interpreter.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut words: Vec<BString> =
            words_of_script(text)?.into_iter().map(BString::from).collect();
        if words.is_empty() {
            return None;
        }
        let interpreter = words.remove(0);
        let by_env =
            if path::name(interpreter.as_ref()) == "env" { env_program(&mut words) } else { None };
        let rest = text.find_byte(b'\n').map_or(text.len(), |end| end + 1);
        Some(Self { interpreter, by_env, arguments: words, text: text[rest..].into() })
    }

    /// True if the interpreter is Python.
    pub(super) fn is_python(&self, interpreter: &BStr) -> bool {
        let name = path::name(interpreter);
        name.starts_with(b"python") || name.starts_with(b"pypy")
    }

    /// True if Python does not add the script's directory to `sys.path` (`-I`, `-P`).
    pub(super) fn is_isolated(&self) -> bool {
        let isolates = |word: &BString| {
            word.starts_with(b"-") && !word.starts_with(b"--") && word.find_byteset(b"IP").is_some()
        };
        self.arguments.iter().take_while(|word| word.starts_with(b"-")).any(isolates)
    }

    /// Returns the program that a shell script executes in its last line, if that line is an `exec`
    /// of a literal name, as in the wrappers of nixpkgs (`makeWrapper`) and Guix (`wrap-program`).
    pub(super) fn wrapped(&self, interpreter: &BStr) -> Option<Wrapped> {
        const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"];
        let shell = path::name(interpreter);
        SHELLS.iter().find(|name| shell == **name)?;
        let lines = || self.text.lines().map(<[u8]>::trim_ascii).filter(|line| is_code(line));
        let words = shlex::split(lines().next_back()?.to_str().ok()?)?;
        let mut words = words.into_iter();
        if words.next()? != "exec" {
            return None;
        }
        let mut program = words.next()?;
        while let Some(flags) = program.strip_prefix('-') {
            if flags.ends_with('a') {
                words.next()?;
            }
            program = words.next()?;
        }
        let (mut program, mut by_env) = (BString::from(program), None);
        if path::name(program.as_ref()) == "env" {
            let mut rest = words.map(BString::from).collect();
            by_env = Some(program);
            program = env_program(&mut rest)?;
        }
        // A name that the shell would expand is not known here.
        if program.is_empty() || program.find_byteset(b"$`*?[~;&|<>(").is_some() {
            return None;
        }
        let assigns = |name: &str| {
            lines().any(|line| {
                let line = line.strip_prefix(b"export ").unwrap_or(line);
                line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
            })
        };
        let sets = VARIABLES.into_iter().filter(|name| assigns(name)).collect();
        Some(Wrapped { program, by_env, sets })
    }
}

fn is_code(line: &[u8]) -> bool {
    !line.is_empty() && !line.starts_with(b"#")
}

/// Removes the program from the arguments of `env`, with the options and assignments before it, and
/// returns it.
fn env_program(words: &mut Vec<BString>) -> Option<BString> {
    let is_before = |word: &BString| word.starts_with(b"-") || word.contains(&b'=');
    let at = words.iter().position(|word| !is_before(word))?;
    words.drain(..=at).next_back()
}
