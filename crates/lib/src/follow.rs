//! One file → its closure, under what is assumed: the step that every command which
//! predicts shares.

use std::fs::File;
use std::sync::Arc;

use becalm_core::closure::{self, Closure, ClosureError, Subject, SubjectKind};
use becalm_core::elf::ElfError;
use becalm_core::fs::FileSystem;
use becalm_core::loader::{Environment, Libc, LoaderFacts};
use becalm_core::macho::{self, MachO};
use becalm_host::FactChoice;
use bstr::{BStr, BString, ByteSlice};
use object::ReadCache;

use crate::assume::{Assumptions, Secure};
use crate::secure::is_started_secure;
use crate::targets::Target;
use crate::words::{errno_words, words, words_of_host};

/// `EM_NONE`: data in the form of an ELF file (Guile's compiled modules are), which
/// no loader takes.
const EM_NONE: u16 = 0;

/// The result of following one file's start.
#[derive(Debug)]
pub enum Followed {
    /// An ELF file's closure, and whether it would start in secure-execution mode.
    Elf(Box<Closure>, bool),
    /// A file of macOS.
    MachO(MachO),
    /// Nothing that starts or is loaded, met in a folder.
    Nothing,
}

/// Follows the start of one file, which `fs` knows as `target.inside`, in an environment;
/// whether it is secure-execution mode is found out.
///
/// # Errors
/// Why it cannot be followed, in words, without its path.
pub fn follow(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    target: &Target,
    environment: &Environment,
) -> Result<Followed, String> {
    follow_where(assumed, fs, target, environment, |_| true)
}

/// The start of a followed subject as a loader of another release would make it: the same
/// files and environment, the facts of that release. `None` where its facts are not known.
#[must_use]
pub fn follow_by_release(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    closure: &Closure,
    secure: bool,
    release: Libc,
) -> Option<Closure> {
    let interpreter = interpreter_of(assumed, &closure.subject).ok()?;
    let choice = FactChoice { libc: Some(release), ..assumed.choice.clone() };
    let facts = becalm_host::loader_facts(&assumed.fs, interpreter.as_ref(), &choice).ok()?;
    let environment = environment_of(assumed, &assumed.environment, &facts, secure);
    let subject = closure.subject.clone();
    closure::resolve(fs, subject, interpreter.as_ref(), facts, &environment).ok()
}

/// The environment of a start, by what its loader reads.
fn environment_of(
    assumed: &Assumptions,
    environment: &Environment,
    facts: &LoaderFacts,
    secure: bool,
) -> Environment {
    let reads = assumed.found_readers(facts, secure);
    let reads = reads.unwrap_or_else(|| environment.reads.clone());
    Environment { secure, reads, ..environment.clone() }
}

/// As [`follow`], where only objects that `walks` says yes to are followed; the others'
/// closures are the objects alone, and need no loader.
///
/// # Errors
/// As [`follow`].
pub fn follow_where(
    assumed: &Assumptions,
    fs: &dyn FileSystem,
    target: &Target,
    environment: &Environment,
    walks: impl FnOnce(&SubjectKind) -> bool,
) -> Result<Followed, String> {
    let subject = match Subject::open(fs, target.inside.as_ref()) {
        Ok(subject) => subject,
        Err(ClosureError::NotLoadable { .. }) if !target.named => return Ok(Followed::Nothing),
        Err(ClosureError::Elf { source: ElfError::NotElf, .. }) => {
            return not_elf(fs, target);
        }
        Err(error) => return Err(words_of_closure(&error)),
    };
    if subject.view.ident.machine == EM_NONE && !target.named {
        return Ok(Followed::Nothing);
    }
    if subject.kind == SubjectKind::Static || !walks(&subject.kind) {
        return Ok(Followed::Elf(Box::new(closure::of_static(subject)), false));
    }
    let interpreter = interpreter_of(assumed, &subject)?;
    let facts = facts_of(assumed, interpreter.as_ref())?;
    let is_program = matches!(subject.kind, SubjectKind::Program { .. });
    let secure = match assumed.secure {
        Secure::Yes => true,
        Secure::No => false,
        Secure::Auto => is_program && is_started_secure(&target.host, subject.file.mode),
    };
    let environment = environment_of(assumed, environment, &facts, secure);
    let closure = closure::resolve(fs, subject, interpreter.as_ref(), facts, &environment)
        .map_err(|error| words_of_closure(&error))?;
    Ok(Followed::Elf(Box::new(closure), secure))
}

fn interpreter_of(assumed: &Assumptions, subject: &Subject) -> Result<BString, String> {
    let own = || subject.interpreter().map(BStr::to_owned);
    assumed.loader.clone().or_else(own).ok_or_else(|| {
        let machine = subject.view.ident.machine_name();
        format!("no loader known for a library of this machine ({machine}); name it with --loader")
    })
}

fn facts_of(assumed: &Assumptions, interpreter: &BStr) -> Result<Arc<LoaderFacts>, String> {
    becalm_host::loader_facts(&assumed.fs, interpreter, &assumed.choice).map_err(|error| {
        let (path, reason) = words_of_host(&error);
        format!("interpreter {}: {reason}", crate::escape::shown(path.as_bstr()))
    })
}

/// A file that is no ELF file: one of macOS, or a mistake.
fn not_elf(fs: &dyn FileSystem, target: &Target) -> Result<Followed, String> {
    let opened = fs.open(target.inside.as_ref()).map_err(errno_words)?;
    let head = opened.head.as_ref().map_err(|errno| errno_words(*errno))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.lines().next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let by = words.next().map(|name| crate::escape::shown(name.as_bstr()));
        let by = by.unwrap_or_else(|| "its interpreter".to_owned());
        return Err(format!("a script, which no loader starts; the program is {by}"));
    }
    if !macho::is_macho(head) {
        return Err("neither an ELF nor a Mach-O file".to_owned());
    }
    let file = File::open(&target.host).map_err(|error| words(&error))?;
    let file = macho::parse(&ReadCache::new(file)).map_err(|error| error.to_string())?;
    Ok(Followed::MachO(file))
}

/// Describes the error, without the path of the file.
fn words_of_closure(error: &ClosureError) -> String {
    match error {
        ClosureError::Open { errno, .. } => errno_words(*errno),
        ClosureError::Elf { source: ElfError::Unreadable(errno), .. } => {
            errno_words(becalm_core::fs::Errno(*errno))
        }
        ClosureError::Elf { source, .. } => source.to_string(),
        ClosureError::NotLoadable { .. } => "neither a program nor a shared library".to_owned(),
        ClosureError::Interpreter { interpreter, reason, .. } => {
            format!("interpreter {}: {reason}", crate::escape::shown(interpreter.as_ref()))
        }
    }
}
