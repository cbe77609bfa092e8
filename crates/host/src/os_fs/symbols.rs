//! Symbol tables of files, read once for each state of a file.

use std::sync::{Arc, Mutex, PoisonError};

use becalm_core::elf::ElfError;
use becalm_core::fs::FileId;
use becalm_core::loader::load::LoadedObject;
use becalm_core::symbols::{ObjectSymbols, SymbolFiles};
use object::ReadCache;
use rustc_hash::FxHashMap;

use super::{OsFs, object_file};
use crate::facts::Facts;
use crate::fingerprint::{Fingerprint, now};

/// Bytes of tables kept between starts.
const MAX_KEPT: usize = 256 << 20;

/// Reads symbol tables from the files of an [`OsFs`] and keeps them for the next start that loads
/// the same files. Shared by any number of threads.
#[derive(Debug)]
pub struct OsSymbols<'a> {
    fs: &'a OsFs,
}

/// The symbol tables that were read so far.
pub(super) type KeptSymbols = Mutex<Kept>;

#[derive(Debug, Default)]
pub(super) struct Kept {
    tables: FxHashMap<FileId, (Fingerprint, Arc<ObjectSymbols>)>,
    bytes: usize,
}

impl OsFs {
    /// The symbol tables of the files of this root.
    #[must_use]
    pub fn symbols(&self) -> OsSymbols<'_> {
        OsSymbols { fs: self }
    }
}

impl SymbolFiles for OsSymbols<'_> {
    fn symbols(&self, object: &LoadedObject) -> Result<Arc<ObjectSymbols>, ElfError> {
        let opened = object_file::open_file(&self.fs.root, &object.path);
        let (file, stat) = opened.map_err(|errno| ElfError::Unreadable(errno.0))?;
        if let Some(known) = self.known(&stat) {
            return Ok(known);
        }
        // Read before the content, so that a change during the read counts as recent.
        let started = now();
        let cache = ReadCache::new(file);
        let tables = Arc::new(ObjectSymbols::read(&cache)?);
        if !stat.fingerprint.may_change_unseen(started) {
            self.keep(&stat, &tables);
        }
        Ok(tables)
    }
}

impl OsSymbols<'_> {
    fn known(&self, stat: &Facts) -> Option<Arc<ObjectSymbols>> {
        let kept = self.fs.kept_symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let (fingerprint, tables) = kept.tables.get(&stat.fingerprint.id)?;
        (*fingerprint == stat.fingerprint).then(|| Arc::clone(tables))
    }

    fn keep(&self, stat: &Facts, tables: &Arc<ObjectSymbols>) {
        let mut kept = self.fs.kept_symbols.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes > MAX_KEPT {
            *kept = Kept::default();
        }
        kept.bytes += tables.memory();
        kept.tables.insert(stat.fingerprint.id, (stat.fingerprint, Arc::clone(tables)));
    }
}
