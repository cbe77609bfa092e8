//! Finds the ELF files of the given places, each once.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_core::elf::{self, ET_DYN, ET_EXEC};
use becalm_host::{WalkOptions, find_objects};

use super::Options;

/// A file to edit.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Class, byte order and machine.
    pub(super) machine: String,
    /// The foreign root that it belongs to.
    pub(super) root: Option<PathBuf>,
}

/// Returns all files of the options, ordered by path.
pub(super) fn find(options: &Options) -> Result<Vec<File>> {
    let mut places: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
    places.extend(options.usr.then(|| ("/usr".into(), None)));
    places.extend(options.store.iter().map(|store| (store.clone(), None)));
    for folder in &options.sysroots {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let root = entry?.path();
            places.extend(root.is_dir().then(|| (root.clone(), Some(root))));
        }
    }
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for (folder, root) in places {
        for found in find_objects(&[folder], WalkOptions::default()).objects {
            if let Some(machine) = machine(&found.path).filter(|_| seen.insert(found.id)) {
                files.push(File { path: found.path, machine, root: root.clone() });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(match options.sample {
        Some(count) if count < files.len() => {
            let step = files.len() as f64 / count.max(1) as f64;
            (0..count).map(|index| files[(index as f64 * step) as usize].clone()).collect()
        }
        _ => files,
    })
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
