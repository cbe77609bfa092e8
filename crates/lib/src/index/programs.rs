//! The programs that the user names to `becalm index`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use becalm_core::elf;

use crate::index::error::IndexError;
use crate::secure::is_started_secure;

/// Bytes of a file that are read to decide whether it is a program.
const HEAD: usize = 4096;

/// Returns the programs in a folder, by their real paths: executable files with an interpreter that
/// are not started in secure-execution mode. Unreadable files are skipped.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, IndexError> {
    let entries = fs::read_dir(folder).map_err(IndexError::io(folder))?;
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
