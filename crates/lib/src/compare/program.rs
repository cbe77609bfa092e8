//! The program of a demonstration or comparison: its loader's facts and its closure. Programs that
//! cannot be compared are rejected here, before anything is copied.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::facts::{Libc, LoaderFacts};
use becalm_host::OsFs;
use becalm_host::trace::Command;
use bstr::{BString, ByteSlice};

use crate::assume::{self, Assumptions, Secure};
use crate::escape::shown;
use crate::follow::follow;
use crate::path::{at, path_bytes, path_of};
use crate::targets::Target;

/// A program and all objects that its start loads.
#[derive(Debug)]
pub struct Program {
    /// Its file, links resolved.
    pub path: PathBuf,
    /// The file of its loader, links resolved.
    pub interpreter: PathBuf,
    /// Facts compiled into its loader.
    pub facts: Arc<LoaderFacts>,
    /// Closure of its start.
    pub closure: Closure,
}

impl Program {
    /// Examines a program.
    ///
    /// # Errors
    /// Returns an error if the program cannot be read or compared.
    pub fn look(path: &Path) -> Result<Self> {
        let path = found(path)?;
        refuse_script(&path)?;
        // A copy has no set-id bit, and its starts have none of this process's variables.
        let plain = assume::Options { secure: Secure::No, ..assume::Options::default() };
        let assumed = Assumptions::of(&plain, OsFs::new(), |_| None);
        let (session, target) = (assumed.fs.session(), Target::named(&assumed, &path));
        let followed = follow(&assumed, &session, &target, &assumed.environment);
        let followed = followed.map_err(|reason| refused(&path, reason))?.elf();
        let (closure, _) = followed.ok_or_else(|| refused(&path, "not an ELF file"))?;
        let refused = |reason| Err(refused(&path, reason));
        let facts = match (closure.subject.kind, closure.facts.clone()) {
            (SubjectKind::Library, _) => return refused("a library, not a program"),
            (SubjectKind::Program, Some(facts)) if facts.libc != Libc::Musl => facts,
            (SubjectKind::Program, Some(_)) => {
                return refused(
                    "a program for musl, for which there is no index, no note and no cache; becalm \
                     fix --with absolute or farm calms it, becalm bench measures that",
                );
            }
            _ => {
                return refused(
                    "a static program: no loader searches for it; compare another program with it \
                     by --static",
                );
            }
        };
        refuse_broken(&path, &closure)?;
        let named = path_of(&closure.subject.interpreter.clone().unwrap_or_default());
        let interpreter = named.canonicalize().with_context(at(&named))?;
        Ok(Self { path, interpreter, facts, closure })
    }
}

/// Returns the file with links resolved. A name that is not a file here is searched for along
/// `PATH`.
///
/// # Errors
/// Returns an error if the file does not exist, or is not a regular file.
pub fn found(path: &Path) -> Result<PathBuf> {
    let is_name = path.components().count() == 1 && !path.exists();
    let path = match is_name {
        true => Command::new(path, []).file().unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    };
    let real = path.canonicalize().with_context(at(&path))?;
    if !real.metadata().with_context(at(&path))?.is_file() {
        return Err(refused(&path, "not a program"));
    }
    Ok(real)
}

fn refuse_script(path: &Path) -> Result<()> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    read.with_context(at(path))?;
    if let Some(script) = head.strip_prefix(b"#!") {
        let line = script.lines().next().unwrap_or_default().trim_ascii();
        let reason = format!("a script; name what runs it: {}", shown(line.as_bstr()));
        Err(refused(path, reason))
    } else if !head.starts_with(b"\x7fELF") {
        Err(refused(path, "not an ELF file"))
    } else {
        Ok(())
    }
}

/// Returns the error of a program that cannot be compared.
fn refused(path: &Path, reason: impl Display) -> anyhow::Error {
    anyhow!("{}: {reason}", shown(path_bytes(path).as_ref()))
}

/// Rejects a program whose unchanged start is broken: the comparison would show nothing.
fn refuse_broken(path: &Path, closure: &Closure) -> Result<()> {
    let unresolved: Vec<String> = closure.unresolved().iter().map(|needed| shown(needed)).collect();
    if !unresolved.is_empty() {
        let reason =
            format!("its closure is not complete: nothing answers {}", unresolved.join(", "));
        return Err(refused(path, reason));
    }
    match closure.fatal() {
        Some(fatal) => {
            let reason =
                format!("the loader gives up at {}", shown(BString::as_ref(&fatal.needed)));
            Err(refused(path, reason))
        }
        None => Ok(()),
    }
}
