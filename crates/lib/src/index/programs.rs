//! The programs that the user names to `becalm index`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use becalm_core::closure::{self, Closure, Subject};
use becalm_core::elf::{self, machine_name};
use becalm_core::facts::Environment;
use becalm_core::loader::load::Role;
use becalm_host::secure::is_started_secure;
use becalm_host::{FactChoice, OsFs, loader_facts};
use object::ReadCache;

use crate::index::current;
use crate::index::error::{UnknownLoader, of_closure};
use crate::index::file::Whole;
use crate::index::options::Options;
use crate::path::{at, path_bytes, path_of};
use crate::problem::Problem;
use crate::progress::Progress;
use crate::words::words_of_chain;

/// Returns the programs in a folder, by their real paths: executable files with an interpreter that
/// are not started in secure-execution mode. Unreadable files are skipped.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(at(folder))?;
    let files = entries.flatten().filter_map(|entry| entry.path().canonicalize().ok());
    let mut programs: Vec<PathBuf> = files.filter(|path| is_program(path)).collect();
    programs.sort();
    programs.dedup();
    Ok(programs)
}

fn is_program(path: &Path) -> bool {
    let Ok(facts) = path.metadata() else { return false };
    // In secure-execution mode a program loads no index.
    if !facts.is_file() || facts.mode() & 0o111 == 0 || is_started_secure(path, facts.mode()) {
        return false;
    }
    let started = File::open(path).ok().and_then(|file| elf::start(&ReadCache::new(file)));
    started.is_some_and(|(_, interpreter)| interpreter.is_some())
}

fn machine(program: &Path) -> Result<&'static str> {
    let subject = Subject::open(&OsFs::new().session(), path_bytes(program).as_ref());
    Ok(machine_name(subject.map_err(of_closure)?.view.ident.machine))
}

/// Returns a program and the libraries that its start loads in an empty environment.
pub(crate) fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    Ok(files_of(&closure_of(&OsFs::new(), program, &Environment::default())?))
}

/// Returns the closure of a program that starts in an environment.
pub(crate) fn closure_of(os: &OsFs, program: &Path, environment: &Environment) -> Result<Closure> {
    let session = os.session();
    let subject = Subject::open(&session, path_bytes(program).as_ref()).map_err(of_closure)?;
    let interpreter = subject.interpreter.clone().unwrap_or_default();
    let facts = loader_facts(os, interpreter.as_ref(), &FactChoice::default());
    let facts = facts.map_err(|error| UnknownLoader { program: program.to_owned(), error })?;
    let closure = closure::resolve(&session, subject, interpreter.as_ref(), facts, environment);
    closure.map_err(of_closure)
}

/// Returns the program and libraries of a start.
pub(crate) fn files_of(closure: &Closure) -> Vec<PathBuf> {
    let objects = closure.load.objects.iter();
    let objects = objects.filter(|object| matches!(object.role, Role::Program | Role::Library));
    objects.map(|object| path_of(object.path.as_ref())).collect()
}

/// Returns the named programs, by their real paths, and those of a traced run; for an index
/// that is updated, also the bound programs outside its stores.
pub(super) fn named(
    options: &Options,
    old: Option<&Whole>,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>> {
    if options.names_nothing() {
        let stores = old.map(|old| current::stores(&old.index)).unwrap_or_default();
        let bound = old.iter().flat_map(|old| &old.index.bound.programs);
        let bound: BTreeSet<_> = bound.map(|program| path_of(program.path.as_ref())).collect();
        let is_outside = |program: &PathBuf| !stores.iter().any(|store| program.starts_with(store));
        return Ok(bound.into_iter().filter(is_outside).collect());
    }
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for program in &options.programs {
        let facts = program.metadata().ok().filter(fs::Metadata::is_file);
        if facts.is_some_and(|facts| is_started_secure(program, facts.mode())) {
            let reason = "starts in secure-execution mode: its loader ignores the index";
            progress.remark(&Problem::new(path_bytes(program), reason));
        }
        let real = program.canonicalize().with_context(at(program))?;
        if real.is_dir() { others.extend(in_folder(&real)?) } else { named.push(real) }
    }
    let traced = options.traced.iter().flat_map(|traced| &traced.programs);
    others.extend(traced.flat_map(|program| program.canonicalize()));
    let mut of_all = None;
    for program in &named {
        let machine = machine(program)?;
        let of_first = *of_all.get_or_insert(machine);
        if machine != of_first {
            let (program, first) = (program.display(), named[0].display());
            bail!(
                "{program} is for {machine}, {first} for {of_first}: an index is for one machine; \
                 make another with becalm index --program {program} -o FILE"
            );
        }
    }
    // The other programs are included if they fit.
    for program in others {
        let Ok(of_this) = machine(&program) else { continue };
        if *of_all.get_or_insert(of_this) == of_this && !named.contains(&program) {
            named.push(program);
        }
    }
    Ok(named)
}

/// Returns the programs that can be indexed, and adds their libraries to the files. Another program is
/// skipped if it was only found in a folder.
pub(super) fn fitting(
    options: &Options,
    wanted: Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
    progress: &dyn Progress,
) -> Result<Vec<PathBuf>> {
    let named: Vec<PathBuf> = options.programs.iter().flat_map(|it| it.canonicalize()).collect();
    let mut programs = Vec::new();
    for program in wanted {
        match libraries_of(&program) {
            Ok(libraries) => {
                files.extend(libraries);
                programs.push(program);
            }
            Err(error) if !named.contains(&program) => {
                let reason = format!("not indexed: {}", words_of_chain(error.as_ref()));
                progress.remark(&Problem::new(path_bytes(&program), reason));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn scripts_libraries_and_second_names_are_no_programs() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let folder = tempfile::tempdir().unwrap();
        symlink(&own, folder.path().join("one")).unwrap();
        symlink(&own, folder.path().join("two")).unwrap();
        symlink("nowhere", folder.path().join("three")).unwrap();
        fs::write(folder.path().join("script"), "#!/bin/sh\n").unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(in_folder(folder.path()).unwrap(), [own]);
        assert!(in_folder(&folder.path().join("script")).is_err());
    }
}
