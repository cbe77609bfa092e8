//! Reads an interpreter's file: its identity, its permissions and its bytes.

use std::fs::File;
use std::io::Read;

use becalm_core::fs::{Errno, FileKind};
use bstr::BStr;

use super::root::errno;
use super::stat::Stat;
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
        if stat.kind == FileKind::Other {
            return Err(Errno::NXIO);
        }
        let file = self.root.open_to_read(path)?;
        let stat = Stat::new(&rustix::fs::fstat(&file).map_err(errno)?);
        if stat.kind != FileKind::File {
            return Err(object_file::not_a_file(&stat));
        }
        let file = File::from(file);
        let mut bytes = Vec::with_capacity(object_file::capacity_for(&stat));
        (&file)
            .take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
        Ok(OpenInterpreter { file, state: stat.fingerprint, bytes })
    }
}
