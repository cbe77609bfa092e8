//! Finds the ELF files of the given places, each once.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_core::elf::{self, ET_DYN, ET_EXEC};

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
    let mut found = Found::default();
    if options.usr {
        found.folder(Path::new("/usr"), None)?;
    }
    for store in &options.store {
        found.folder(store, None)?;
    }
    for folder in &options.sysroots {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let root = entry?.path();
            if root.is_dir() {
                found.folder(&root, Some(&root))?;
            }
        }
    }
    found.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(match options.sample {
        Some(count) if count < found.files.len() => {
            let step = found.files.len() as f64 / count.max(1) as f64;
            (0..count).map(|index| found.files[(index as f64 * step) as usize].clone()).collect()
        }
        _ => found.files,
    })
}

#[derive(Default)]
struct Found {
    files: Vec<File>,
    seen: BTreeSet<(u64, u64)>,
}

impl Found {
    fn folder(&mut self, folder: &Path, root: Option<&Path>) -> Result<()> {
        let mut left = vec![folder.to_owned()];
        while let Some(folder) = left.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    left.push(entry.path());
                } else if kind.is_file() {
                    self.file(&entry.path(), root);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, root: Option<&Path>) {
        let Ok(mut file) = fs::File::open(path) else { return };
        let mut head = [0; 64];
        if file.read_exact(&mut head).is_err() {
            return;
        }
        let Some(ident) = elf::ident(&head).filter(|it| matches!(it.e_type, ET_EXEC | ET_DYN))
        else {
            return;
        };
        let Ok(status) = file.metadata() else { return };
        if self.seen.insert((status.dev(), status.ino())) {
            let class = if ident.class == elf::Class::Elf64 { "64" } else { "32" };
            let order = if ident.endian == elf::Endian::Little { "le" } else { "be" };
            let machine = format!("{}/{class}{order}", ident.machine_name());
            let root = root.map(Path::to_owned);
            self.files.push(File { path: path.to_owned(), machine, root });
        }
    }
}
