//! The bytes of one file into another: shared where the file system can, copied else, with
//! holes left holes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::fingerprint::Facts;
use super::sys::{self, Sys};

/// Bytes copied by one call at the most.
const PIECE: u64 = 1024 * 1024 * 1024;
/// Bytes held where the kernel cannot copy by itself.
const BUFFER: u64 = 256 * 1024;

/// One copy: from where, to where, and what to call it.
pub(super) struct Copy<'a> {
    pub(super) sys: &'a Sys,
    /// The name of `to`.
    pub(super) path: &'a Path,
    pub(super) from: &'a OwnedFd,
    pub(super) to: &'a OwnedFd,
}

impl Copy<'_> {
    /// Shares all blocks; `false` where the file system cannot.
    pub(super) fn share(&self) -> io::Result<bool> {
        match self.sys.share(self.path, self.from, self.to) {
            Ok(()) => Ok(true),
            // EXDEV: another file system after all, as below an overlay; EINVAL: NOCOW and
            // other files of a kind that is not shared.
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::INVAL | Errno::NOSYS) => {
                Ok(false)
            }
            Err(errno) => Err(sys::error(errno)),
        }
    }

    /// Copies the first `len` bytes; what is a hole in `from` stays one in `to`, whose length
    /// the caller sets.
    pub(super) fn data(&self, facts: &Facts, len: u64) -> io::Result<()> {
        if facts.blocks.saturating_mul(512) >= facts.fingerprint.size {
            return self.range(0, len);
        }
        let mut at = 0;
        while at < len {
            let start = match self.sys.seek(self.path, self.from, SeekFrom::Data(at)) {
                Ok(start) if start < len => start,
                Ok(_) | Err(Errno::NXIO) => return Ok(()),
                // No holes known here.
                Err(Errno::INVAL) => return self.range(at, len),
                Err(errno) => return Err(sys::error(errno)),
            };
            let end = self.sys.seek(self.path, self.from, SeekFrom::Hole(start));
            let end = end.map_err(sys::error)?.min(len);
            self.range(start, end)?;
            at = end;
        }
        Ok(())
    }

    /// Copies the bytes from `at` to `end`.
    fn range(&self, mut at: u64, end: u64) -> io::Result<()> {
        while at < end {
            let piece = (end - at).min(PIECE);
            match self.sys.copy(self.path, self.from, self.to, at, piece as usize) {
                // Some file systems say "nothing" where they mean "cannot".
                Ok(0) => return self.by_hand(at, end),
                Ok(count) => at += count as u64,
                Err(
                    Errno::XDEV
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::BADF,
                ) => return self.by_hand(at, end),
                Err(errno) => return Err(sys::error(errno)),
            }
        }
        Ok(())
    }

    /// Copies through memory; `UnexpectedEof` where `from` is shorter than it was.
    fn by_hand(&self, mut at: u64, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; (end - at).min(BUFFER) as usize];
        while at < end {
            let mount_namespace = (end - at).min(BUFFER) as usize;
            match self.sys.read(self.path, self.from, &mut buffer[..mount_namespace], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let write = self.sys.write(self.path, self.to, &buffer[..count], at);
                    write.map_err(sys::error)?;
                    at += count as u64;
                }
                Err(errno) => return Err(sys::error(errno)),
            }
        }
        Ok(())
    }
}
