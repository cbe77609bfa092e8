//! What a command is: a program with a loader that audits, one without, or none.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use becalm_core::closure::{self, Closure, Subject, SubjectKind};
use becalm_core::facts::{Environment, GlibcVersion, Libc, LoaderFacts};
use becalm_core::index::{Target, tls};
use becalm_host::{FactChoice, OsFs, loader_facts};
use bstr::{BString, ByteSlice};

use crate::commands::secure::is_started_secure;
use crate::output::{path_bytes, words, words_of_host};

/// The first release whose loader asks an audit module before it searches, for every needed
/// string, in the way the module relies on.
const FIRST_GLIBC: GlibcVersion = GlibcVersion { major: 2, minor: 31 };

/// Scripts that are interpreted by scripts, followed at the most (Linux `BINPRM_MAX_RECURSION`).
const MAX_SCRIPTS: usize = 4;

/// The program that a command starts: itself, or the interpreter of a script.
pub(super) struct Program {
    /// Its path.
    pub(super) path: PathBuf,
    /// Its path with links resolved.
    pub(super) real: PathBuf,
    /// How it starts.
    pub(super) start: Start,
    subject: Subject,
}

/// How a program starts.
pub(super) enum Start {
    /// By a glibc loader that asks audit modules.
    Loader(Arc<LoaderFacts>),
    /// Without a loader.
    Static,
    /// In secure-execution mode.
    Secure,
}

/// The file that a command name stands for, as `execvp` finds it.
///
/// # Errors
/// Where there is none.
pub(super) fn find(name: &OsStr) -> Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let is_program = |file: &PathBuf| {
        file.metadata()
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&path)
        .map(
            |dir| {
                if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) }
            },
        )
        .find(is_program)
        .ok_or_else(|| anyhow!("{}: command not found", name.to_string_lossy()))
}

impl Program {
    /// Looks at what a path starts.
    ///
    /// # Errors
    /// Where it starts nothing, or nothing that an audit module can calm.
    pub(super) fn look(os: &OsFs, path: &Path) -> Result<Self> {
        let path = behind_scripts(path)?;
        let shown = path.display().to_string();
        let real = path.canonicalize().map_err(|error| anyhow!("{shown}: {}", words(&error)))?;
        let subject = Subject::open(&os.session(), path_bytes(&real).as_ref())?;
        let start = match &subject.kind {
            SubjectKind::Static => Start::Static,
            SubjectKind::Library { .. } => bail!("{shown}: a library, not a program"),
            _ if is_started_secure(&real, subject.file.mode) => Start::Secure,
            SubjectKind::Program { interpreter } => Start::Loader(facts(os, &shown, interpreter)?),
        };
        Ok(Self { path, real, start, subject })
    }

    /// Its machine.
    pub(super) fn target(&self) -> Target {
        Target::of(&self.subject.view.ident)
    }

    /// What its start loads in this environment.
    ///
    /// # Errors
    /// Where its loader cannot be read.
    pub(super) fn closure(&self, os: &OsFs) -> Result<Closure> {
        let Start::Loader(facts) = &self.start else {
            return Ok(closure::of_static(self.subject.clone()));
        };
        let variable = |name: &str| env::var_os(name).map(|v| BString::from(v.as_bytes()));
        let environment = Environment {
            library_path: variable("LD_LIBRARY_PATH").filter(|value| !value.is_empty()),
            preload: variable("LD_PRELOAD").filter(|value| !value.is_empty()),
            ..Environment::default()
        };
        let interpreter = self.subject.interpreter().unwrap_or_default().to_owned();
        let (subject, facts) = (self.subject.clone(), Arc::clone(facts));
        Ok(closure::resolve(&os.session(), subject, interpreter.as_ref(), facts, &environment)?)
    }

    /// What `glibc.rtld.optional_static_tls` must be for it; 0: the default does.
    ///
    /// # Errors
    /// Where it does not start under any audit module.
    pub(super) fn static_tls(&self, os: &OsFs) -> Result<u64> {
        let need = tls::of_closure(&self.closure(os)?);
        if need.impossible {
            bail!(
                "{}: a library of it wants thread-local storage aligned as no loader under an \
                 audit module can; start it without becalm run",
                self.path.display()
            );
        }
        Ok(need.tunable().unwrap_or(0))
    }
}

/// The facts of the program's loader, where it is one that audits.
fn facts(os: &OsFs, shown: &str, interpreter: &BString) -> Result<Arc<LoaderFacts>> {
    let facts = loader_facts(os, interpreter.as_ref(), &FactChoice::default());
    let facts = facts.map_err(|error| {
        let (path, reason) = words_of_host(&error);
        anyhow!("{shown}: interpreter {}: {reason}", path.as_bstr())
    })?;
    match facts.libc {
        Libc::Musl => bail!(
            "{shown}: musl's loader knows no audit modules, so an index cannot calm it; becalm fix \
             --with absolute or farm can"
        ),
        Libc::Glibc(version) if version < FIRST_GLIBC => bail!(
            "{shown}: {} is too old for the audit module, which needs {}",
            facts.libc,
            Libc::Glibc(FIRST_GLIBC)
        ),
        Libc::Glibc(_) => Ok(facts),
    }
}

/// The program that is started for a file: itself, or the interpreter that its first line
/// names; behind `env`, the program that is named there.
fn behind_scripts(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_SCRIPTS {
        let Some(line) = first_line(&path)? else { return Ok(path) };
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words: Vec<&[u8]> = words.collect();
        path = match words.as_slice() {
            [env, rest @ ..] if env.ends_with(b"/env") => {
                let named =
                    rest.iter().find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
                named.map_or(Ok(PathBuf::from(OsStr::from_bytes(env))), |name| {
                    find(OsStr::from_bytes(name))
                })?
            }
            [interpreter, ..] => PathBuf::from(OsStr::from_bytes(interpreter)),
            // The shell takes it.
            [] => PathBuf::from("/bin/sh"),
        };
    }
    Ok(path)
}

/// What follows `#!`, up to the length that the kernel reads (`BINPRM_BUF_SIZE`).
fn first_line(path: &Path) -> Result<Option<BString>> {
    let shown = || path.display().to_string();
    let facts = path.metadata().map_err(|error| anyhow!("{}: {}", shown(), words(&error)))?;
    if !facts.is_file() {
        bail!("{}: not a program", shown());
    }
    let file = File::open(path).map_err(|error| anyhow!("{}: {}", shown(), words(&error)))?;
    let mut start = Vec::new();
    file.take(256).read_to_end(&mut start)?;
    if start.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let script = start.strip_prefix(b"#!").unwrap_or_default();
    Ok(Some(script.lines().next().unwrap_or_default().into()))
}
