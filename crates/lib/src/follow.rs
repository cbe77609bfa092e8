//! Resolves one file to its closure, under the assumptions: the step that every predicting command
//! shares.

use std::fs::File;

use anyhow::{Context, Result, anyhow, bail};
use becalm_core::closure::{self, Closure, ClosureError, Subject, SubjectKind};
use becalm_core::elf::ElfError;
use becalm_core::fs::{Errno, FileSystem};
use becalm_core::loader::{Environment, Libc};
use becalm_core::macho;
use becalm_host::FactChoice;
use becalm_host::secure::is_started_secure;
use bstr::{BString, ByteSlice};
use object::ReadCache;

use crate::assume::{Assumptions, Secure};
use crate::run::program::words_of_script;
use crate::targets::Target;
use crate::words::{errno_words, words, words_of_interpreter};

/// `EM_NONE`: data in the form of an ELF file (Guile's compiled modules are), which
/// no loader takes.
const EM_NONE: u16 = 0;

/// Returns an error without the path of the file.
fn of_closure(error: &ClosureError) -> anyhow::Error {
    anyhow!(match error {
        ClosureError::Open { errno, .. } => errno_words(*errno),
        ClosureError::Elf { source: ElfError::Unreadable(errno), .. } => errno_words(Errno(*errno)),
        ClosureError::Elf { source, .. } => source.to_string(),
        ClosureError::NotLoadable { .. } => "neither a program nor a shared library".to_owned(),
        ClosureError::Interpreter { interpreter, reason, .. } => {
            format!("interpreter {}: {reason}", crate::escape::shown(interpreter.as_ref()))
        }
    })
}

/// The result of following one file's start.
#[derive(Debug)]
pub enum Followed {
    /// An ELF file's closure, and whether it would start in secure-execution mode.
    Elf(Box<Closure>, bool),
    /// The slices of a file of macOS.
    MachO(Vec<macho::Slice>),
    /// A file of a folder that neither starts nor is loaded.
    Nothing,
}

impl Followed {
    /// Returns the closure of an ELF file, and whether it would start in secure-execution mode.
    pub(crate) fn elf(self) -> Option<(Closure, bool)> {
        match self {
            Self::Elf(closure, secure) => Some((*closure, secure)),
            Self::MachO(_) | Self::Nothing => None,
        }
    }
}

/// Follows the start of one file, which `fs` knows as `target.inside`, in an environment.
/// Secure-execution mode is detected.
///
/// # Errors
/// Returns the reason, without the file's path, if the start cannot be followed.
pub fn follow(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    target: &Target,
    environment: &Environment,
) -> Result<Followed> {
    follow_where(assumed, fs, target, environment, |_| true)
}

/// Predicts the start of a followed subject with a loader of another release: the same files and
/// environment, the facts of that release. `None` if its facts are not known.
pub(crate) fn follow_by_release(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    closure: &Closure,
    secure: bool,
    release: Libc,
) -> Option<Closure> {
    let interpreter = interpreter_of(assumed, &closure.subject).ok()?;
    let choice = FactChoice { libc: Some(release), ..assumed.choice_of(secure) };
    let facts = becalm_host::loader_facts(&assumed.fs, interpreter.as_ref(), &choice).ok()?;
    let environment = assumed.environment_of(&assumed.environment, &facts, secure);
    let subject = closure.subject.clone();
    closure::resolve(fs, subject, interpreter.as_ref(), facts, &environment).ok()
}

/// As [`follow`], but only for subjects that `walks` accepts; the closure of any other is the
/// object alone, and needs no loader.
///
/// # Errors
/// Returns the errors of [`follow`].
pub fn follow_where(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    target: &Target,
    environment: &Environment,
    walks: impl FnOnce(SubjectKind) -> bool,
) -> Result<Followed> {
    let subject = match Subject::open(fs, target.inside.as_ref()) {
        Ok(subject) => subject,
        Err(ClosureError::NotLoadable { .. }) if !target.named => return Ok(Followed::Nothing),
        Err(ClosureError::Elf { source: ElfError::NotElf, .. }) => {
            return not_elf(fs, target);
        }
        Err(error) => return Err(of_closure(&error)),
    };
    if subject.view.ident.machine == EM_NONE && !target.named {
        return Ok(Followed::Nothing);
    }
    if subject.kind == SubjectKind::Static || !walks(subject.kind) {
        return Ok(Followed::Elf(Box::new(closure::of_static(subject)), false));
    }
    let interpreter = interpreter_of(assumed, &subject)?;
    let is_program = subject.kind == SubjectKind::Program;
    let secure = match assumed.secure {
        Secure::Yes => true,
        Secure::No => false,
        Secure::Auto => is_program && is_started_secure(&target.host, subject.file.mode),
    };
    let choice = assumed.choice_of(secure);
    let facts = becalm_host::loader_facts(&assumed.fs, interpreter.as_ref(), &choice)
        .map_err(|error| anyhow!(words_of_interpreter(&error)))?;
    let environment = assumed.environment_of(environment, &facts, secure);
    let closure = closure::resolve(fs, subject, interpreter.as_ref(), facts, &environment);
    let closure = closure.map_err(|error| of_closure(&error))?;
    Ok(Followed::Elf(Box::new(closure), secure))
}

fn interpreter_of(assumed: &Assumptions, subject: &Subject) -> Result<BString> {
    assumed.loader.as_ref().or(subject.interpreter.as_ref()).cloned().with_context(|| {
        let machine = subject.view.ident.machine_name();
        format!("no loader known for a library of this machine ({machine}); name it with --loader")
    })
}

/// Handles a file that is not ELF: one of macOS, or an error.
fn not_elf(fs: &dyn FileSystem, target: &Target) -> Result<Followed> {
    let unreadable = |errno| anyhow!(errno_words(errno));
    let opened = fs.open(target.inside.as_ref()).map_err(unreadable)?;
    let head = opened.head.as_ref().map_err(|errno| unreadable(*errno))?;
    if let Some(words) = words_of_script(head) {
        let by = words.first().map(|name| crate::escape::shown(name.as_bstr()));
        let by = by.unwrap_or_else(|| "its interpreter".to_owned());
        bail!("a script, which no loader starts; the program is {by}");
    }
    if !macho::is_macho(head) {
        bail!("neither an ELF nor a Mach-O file");
    }
    let file = File::open(&target.host).map_err(|error| anyhow!(words(&error)))?;
    let file = macho::parse(&ReadCache::new(file))?;
    Ok(Followed::MachO(file))
}
