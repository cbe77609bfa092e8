//! Symbol tables of files, read once for each state of a file.

use std::sync::Arc;

use becalm_core::elf::ElfError;
use becalm_core::loader::load::LoadedObject;
use becalm_core::symbols::{ObjectSymbols, SymbolFiles};
use object::ReadCache;

use super::{OsFs, object_file};
use crate::fingerprint::now;

/// Bytes of tables kept between starts.
pub(super) const MAX_KEPT: usize = 256 << 20;

/// Reads symbol tables from the files of an [`OsFs`] and keeps them for the next start that loads
/// the same files. Shared by any number of threads.
#[derive(Debug)]
pub struct OsSymbols<'a> {
    fs: &'a OsFs,
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
        if let Some(known) = self.fs.tables.get(&stat.fingerprint) {
            return Ok(known);
        }
        // Read before the content, so that a change during the read counts as recent.
        let started = now();
        let cache = ReadCache::new(file);
        let tables = Arc::new(ObjectSymbols::read(&cache)?);
        if !stat.fingerprint.may_change_unseen(started) {
            self.fs.tables.insert(stat.fingerprint, Arc::clone(&tables), tables.memory());
        }
        Ok(tables)
    }
}
