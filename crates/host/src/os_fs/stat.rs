//! The result of `stat`.

use becalm_core::fs::FileKind;
use rustix::fs::FileType;

use crate::fingerprint::Fingerprint;

/// A result of `stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) kind: FileKind,
    /// True for a socket, which is [`FileKind::Other`] and cannot be opened.
    pub(super) socket: bool,
    pub(super) fingerprint: Fingerprint,
}

impl Stat {
    /// Converts the system's structure.
    #[allow(clippy::useless_conversion, reason = "a no-op on x86-64, needed elsewhere")]
    pub(super) fn new(stat: &rustix::fs::Stat) -> Self {
        let file_type = FileType::from_raw_mode(stat.st_mode as _);
        Self {
            kind: match file_type {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Directory,
                _ => FileKind::Other,
            },
            socket: file_type == FileType::Socket,
            fingerprint: Fingerprint::of(stat),
        }
    }
}
