//! The indexes that this run has read, by path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use becalm_core::index::{Index, Target};
use bstr::BString;

use crate::index::file;
use crate::path::path_of;

/// The indexes that were read, and the files that are not indexes, by path.
#[derive(Debug, Default)]
pub struct Indexes(Mutex<HashMap<BString, Option<Arc<Read>>>>);

/// An index as a whole.
#[derive(Debug)]
pub struct Read {
    /// The machine.
    pub target: Target,
    /// The content of the index.
    pub index: Index,
}

impl Indexes {
    /// Returns the index at a path, read once; `None` if the file is no index.
    pub fn read(&self, path: &BString) -> Option<Arc<Read>> {
        let Ok(mut known) = self.0.lock() else { return None };
        let read = || {
            let place = path_of(path.as_ref());
            let file::Whole { target, index, .. } =
                file::is_index(&place).then(|| file::read(&place).ok())??;
            Some(Arc::new(Read { target, index }))
        };
        known.entry(path.clone()).or_insert_with(read).clone()
    }
}
