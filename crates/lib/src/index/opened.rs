//! An index with which programs are started.

use std::path::PathBuf;
use std::time::SystemTime;

use becalm_core::index::Ranged;

use crate::index::error::IndexError;
use crate::index::static_tls;
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

impl Opened {
    /// Returns the value of `glibc.rtld.optional_static_tls` in a session with this index: the
    /// largest need of its programs, except those that need more than
    /// [`static_tls::LARGEST_STATIC_TLS`].
    ///
    /// # Errors
    /// Returns an error if the file is damaged.
    pub fn session_static_tls(&self) -> Result<u64, IndexError> {
        let damaged = || IndexError::damaged(&self.path);
        let largest = u64::from(self.index.static_tls().map_err(damaged())?);
        // The value applies to each thread of each program of a session, so extreme needs are left
        // out.
        if largest <= static_tls::LARGEST_STATIC_TLS {
            return Ok(largest.max(static_tls::SESSION_STATIC_TLS));
        }
        let needs = self.index.static_tls_of_all().map_err(damaged())?;
        let needs = needs.into_iter().map(|(_, need)| u64::from(need));
        let covered = needs.filter(|&need| need <= static_tls::LARGEST_STATIC_TLS).max();
        Ok(covered.unwrap_or(0).max(static_tls::SESSION_STATIC_TLS))
    }
}
