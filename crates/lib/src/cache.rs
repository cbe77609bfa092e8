//! State of what `becalm run` keeps beside indexes and records of pages (`becalm cache`).

use std::io;

use serde::Serialize;

use crate::json;
use crate::pages::{self, PagesState};
use crate::trees::folder;
use crate::trees::state::{self as trees, TreesState};

/// The JSON document of `becalm cache`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheReport {
    /// True if what is kept was removed.
    pub cleared: bool,
    /// The records and copies for programs on network file systems, or those that were removed; null if
    /// there is no folder.
    pub trees: Option<TreesState>,
    /// The ready pages of programs; null if there is no folder.
    pub pages: Option<PagesState>,
}

json::schema!(CacheReport, "becalm/cache/1");

/// Returns what is kept.
#[must_use]
pub fn report() -> CacheReport {
    CacheReport { cleared: false, trees: trees::state(), pages: pages::state() }
}

/// Removes what is kept. Programs of `--check never` can fail.
///
/// # Errors
/// Returns an error if a file cannot be removed; the others are.
pub fn clear(mut kept: CacheReport) -> io::Result<CacheReport> {
    let trees = kept.trees.iter().map(|it| trees::clear(&it.folder));
    // Programs that run keep their mappings.
    let pages = kept.pages.iter().map(|it| folder::clear(&it.folder));
    trees.chain(pages).collect::<Vec<_>>().into_iter().collect::<io::Result<()>>()?;
    kept.cleared = true;
    Ok(kept)
}
