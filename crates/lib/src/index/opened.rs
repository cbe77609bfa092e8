//! An index with which programs are started.

use std::path::PathBuf;
use std::time::SystemTime;

use becalm_core::index::Ranged;

use crate::index::trust::TrustedFile;

/// An index with which programs are started.
#[derive(Debug)]
pub struct Opened {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its header; the rest is read when it is needed.
    pub index: Ranged<TrustedFile>,
    /// The time when it was written, or last compared with the files.
    pub modified: Option<SystemTime>,
}
