//! Copies a file's bytes into another: by sharing blocks if the file system can, otherwise by
//! copying. Holes stay holes.

use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::sys::{On, Sys};
use crate::facts::Facts;

/// Maximum number of bytes that one call copies.
const PIECE: u64 = 1024 * 1024 * 1024;
/// Size of the buffer for file systems on which the kernel cannot copy.
const BUFFER: u64 = 256 * 1024;

/// Source and target of a copy.
pub(super) struct Copy<'a> {
    pub(super) sys: &'a Sys,
    pub(super) from: On<'a>,
    pub(super) to: On<'a>,
}

impl Copy<'_> {
    /// Shares all blocks. Returns false if the file system cannot.
    pub(super) fn share(&self) -> io::Result<bool> {
        match self.sys.share(self.from, self.to) {
            Ok(()) => Ok(true),
            // EXDEV: different file systems, for example below an overlay. EINVAL: NOCOW files and
            // other kinds whose blocks cannot be shared.
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
                Ok(false)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Copies the first `len` bytes. A hole in `from` becomes a hole in `to`. The caller sets the
    /// length of `to`.
    pub(super) fn data(&self, facts: &Facts, len: u64) -> io::Result<()> {
        // A file with a block for each byte has no holes, so it needs no seeks.
        if facts.blocks.saturating_mul(512) >= facts.fingerprint.size {
            return self.range(0, len);
        }
        let mut at = 0;
        while at < len {
            let start = match self.sys.seek(self.from, SeekFrom::Data(at)) {
                Ok(start) if start < len => start,
                // `ENXIO`: only a hole follows (lseek(2)).
                Ok(_) | Err(Errno::NXIO) => return Ok(()),
                // This file system does not report holes.
                Err(Errno::INVAL) => return self.range(at, len),
                Err(errno) => return Err(errno.into()),
            };
            let end = self.sys.seek(self.from, SeekFrom::Hole(start))?.min(len);
            self.range(start, end)?;
            at = end;
        }
        Ok(())
    }

    /// Copies the bytes from `at` to `end`.
    fn range(&self, mut at: u64, end: u64) -> io::Result<()> {
        while at < end {
            let piece = (end - at).min(PIECE);
            match self.sys.copy(self.from, self.to, at, piece as usize) {
                // Some file systems return 0 if they do not support the call.
                Ok(0) => return self.through_memory(at, end),
                Ok(count) => at += count as u64,
                // Kernels and file systems refuse with different errnos, and a sandbox may forbid
                // the call with `EPERM`.
                Err(
                    Errno::XDEV
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::BADF,
                ) => return self.through_memory(at, end),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Copies through memory. Returns `UnexpectedEof` if `from` has become shorter.
    fn through_memory(&self, mut at: u64, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; (end - at).min(BUFFER) as usize];
        while at < end {
            let size = (end - at).min(BUFFER) as usize;
            match self.sys.read(self.from, &mut buffer[..size], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.sys.write(self.to, &buffer[..count], at)?;
                    at += count as u64;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}
