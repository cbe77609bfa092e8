//! Finds the ELF files of the given places, each once.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use becalm_core::elf::{self, ET_DYN, ET_EXEC};
use becalm_host::{WalkOptions, find_objects};

use super::Options;

/// A file to edit.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Class, byte order and machine.
    pub(super) machine: String,
}

/// Returns all files of the options, ordered by path.
pub(super) fn find(options: &Options) -> Vec<File> {
    let usr = options.usr.then(|| PathBuf::from("/usr"));
    let places: Vec<PathBuf> = usr.into_iter().chain(options.store.iter().cloned()).collect();
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for found in find_objects(&places, WalkOptions::default()).objects {
        if let Some(machine) = machine(&found.path).filter(|_| seen.insert(found.id)) {
            files.push(File { path: found.path, machine });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    match options.sample {
        Some(count) if count < files.len() => {
            let step = files.len() as f64 / count.max(1) as f64;
            (0..count).map(|index| files[(index as f64 * step) as usize].clone()).collect()
        }
        _ => files,
    }
}

/// Returns the class, byte order and machine of a program or library.
fn machine(path: &Path) -> Option<String> {
    let mut head = [0; 64];
    fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    let ident = elf::ident(&head).filter(|it| matches!(it.e_type, ET_EXEC | ET_DYN))?;
    let class = if ident.class == elf::Class::Elf64 { "64" } else { "32" };
    let order = if ident.endian == elf::Endian::Little { "le" } else { "be" };
    Some(format!("{}/{class}{order}", ident.machine_name()))
}
