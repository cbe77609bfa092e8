//! The programs that the user names to `becalm index`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use becalm_core::closure::{self, Closure, Subject};
use becalm_core::elf::{self, machine_name};
use becalm_core::facts::Environment;
use becalm_core::loader::load::Role;
use becalm_host::{FactChoice, OsFs, loader_facts};

use crate::index::error::of_closure;
use crate::path::{at, path_bytes, path_of};
use crate::secure::is_started_secure;
use crate::words::words_of_interpreter;

/// Bytes of a file that are read to decide whether it is a program.
const HEAD: usize = 4096;

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
    let mut head = vec![0; HEAD];
    let read = File::open(path).and_then(|file| file.read_at(&mut head, 0));
    head.truncate(read.unwrap_or(0));
    elf::head(&head).is_some_and(|head| head.interpreter.is_some())
}

/// True for a program that the kernel would start in secure-execution mode.
pub(super) fn is_set_id(program: &Path) -> bool {
    let facts = program.metadata().ok().filter(std::fs::Metadata::is_file);
    facts.is_some_and(|facts| is_started_secure(program, facts.mode()))
}

/// Returns an error if the programs are for different machines.
pub(super) fn check_one_machine(programs: &[PathBuf]) -> Result<()> {
    let Some(first) = programs.first() else { return Ok(()) };
    let of_first = machine(first)?;
    for program in programs {
        let machine = machine(program)?;
        if machine != of_first {
            let (program, first) = (program.display(), first.display());
            return Err(anyhow!(
                "{program} is for {machine}, {first} for {of_first}: an index is for one machine; \
                 make another with becalm index --program {program} -o FILE"
            ));
        }
    }
    Ok(())
}

pub(super) fn machine(program: &Path) -> Result<&'static str> {
    let subject = Subject::open(&OsFs::new().session(), path_bytes(program).as_ref());
    Ok(machine_name(subject.map_err(of_closure)?.view.ident.machine))
}

/// Returns a program and the libraries that its start loads in an empty environment.
pub(crate) fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let os = OsFs::new();
    let session = os.session();
    let subject = Subject::open(&session, path_bytes(program).as_ref()).map_err(of_closure)?;
    let interpreter = subject.interpreter().unwrap_or_default().to_owned();
    let facts = loader_facts(&os, interpreter.as_ref(), &FactChoice::default());
    let facts = facts
        .map_err(|error| anyhow!("{}: {}", program.display(), words_of_interpreter(&error)))?;
    let environment = Environment::default();
    let closure = closure::resolve(&session, subject, interpreter.as_ref(), facts, &environment);
    Ok(files_of(&closure.map_err(of_closure)?))
}

/// Returns the program and libraries of a start.
pub(crate) fn files_of(closure: &Closure) -> Vec<PathBuf> {
    let objects = closure.load.objects.iter();
    let objects = objects.filter(|object| matches!(object.role, Role::Program | Role::Library));
    objects.map(|object| path_of(object.path.as_ref())).collect()
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
