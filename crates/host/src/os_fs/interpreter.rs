//! Reads an interpreter's file: its identity, its permissions and its bytes.

use std::fs::File;

use becalm_core::fs::{Errno, FileKind};
use bstr::BStr;

use super::{OsFs, object_file};
use crate::fingerprint::Fingerprint;

/// Maximum size of an interpreter, in bytes. musl's is below 1 MB.
const LARGEST: u64 = 64 * 1024 * 1024;

/// An open interpreter.
#[derive(Debug)]
pub(crate) struct OpenInterpreter {
    pub(crate) file: File,
    pub(crate) state: Fingerprint,
    /// All of its bytes.
    pub(crate) bytes: Vec<u8>,
}

impl OsFs {
    /// Returns the state of the interpreter at a path inside the root.
    pub(crate) fn interpreter(&self, path: &BStr) -> Result<Fingerprint, Errno> {
        self.root.stat(path).map(|stat| stat.fingerprint)
    }

    /// Opens the interpreter and reads its current state and all of its bytes.
    pub(crate) fn read_interpreter(&self, path: &BStr) -> Result<OpenInterpreter, Errno> {
        let stat = self.root.stat(path)?;
        if stat.kind() == FileKind::Other {
            return Err(Errno::NXIO);
        }
        let (file, stat) = object_file::open_file(&self.root, path)?;
        let bytes = object_file::read_up_to(&file, LARGEST)?;
        Ok(OpenInterpreter { file, state: stat.fingerprint, bytes })
    }
}
