//! Replaces a file: writes a temporary file with the old one's metadata and renames it to the old
//! name. The bytes are shared with the old file if the file system can, and otherwise copied; holes stay
//! holes.

use std::io;
use std::sync::Arc;

use becalm_core::patch::Patch;
use rustix::fs::{RenameFlags, SeekFrom};
use rustix::io::Errno;

use super::dir::Dir;
use super::error::WriteError;
use super::file::FileUnderEdit;
use super::sys::{On, Sys};
use super::temporary::Temporary;
use super::{WriteOptions, blocks, metadata};
use crate::facts::Facts;

/// Maximum number of bytes that one call copies.
const PIECE: u64 = 1024 * 1024 * 1024;
/// Size of the buffer for file systems on which the kernel cannot copy.
const BUFFER: u64 = 256 * 1024;

/// A complete temporary file and the file that it will replace.
pub(super) struct Atomic {
    pub(super) old: FileUnderEdit,
    pub(super) new: Temporary,
}

impl Atomic {
    /// Creates the complete temporary file. The batch syncs it later.
    pub(super) fn prepare(
        sys: &Sys,
        dir: &Arc<Dir>,
        old: FileUnderEdit,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        // `old` is locked, so an existing temporary file of its inode is a leftover.
        let new = Temporary::create(sys, dir, old.id().ino, true)?;
        let prepared = Self { old, new };
        prepared.check_unchanged(sys)?;
        prepared.fill(sys, patch).map_err(|error| prepared.not_filled(error))?;
        metadata::copy(sys, &prepared.old, &prepared.new, options.keep_times)?;
        Ok(prepared)
    }

    fn fill(&self, sys: &Sys, patch: &Patch) -> io::Result<()> {
        let Self { old, new } = self;
        let copy = Copy { sys, from: old.on(), to: new.on() };
        let set_length = |length| sys.set_length(new.on(), length);
        let size = old.facts.fingerprint.size;
        let shares = copy.share()?;
        let mut length = if shares { size } else { 0 };
        if !shares {
            copy.data(&old.facts, size.min(patch.length))?;
        } else if patch.length < size {
            // Cut at a block, because the kernel would read and clear the rest of a block.
            length = blocks::start_of(patch.length);
            set_length(length)?;
        }
        let read = |offset, bytes: &mut [u8]| sys.read_exact(old.on(), bytes, offset);
        for write in blocks::whole(patch, size, shares, read)? {
            sys.write(new.on(), &write.bytes, write.offset)?;
            length = length.max(write.offset + write.bytes.len() as u64);
        }
        // Copying skips a hole at the end, so the new file may be shorter than the old one.
        if length != patch.length {
            set_length(patch.length)?;
        }
        Ok(())
    }

    fn not_filled(&self, source: io::Error) -> WriteError {
        let path = &self.old.path;
        // The file has become shorter since it was opened.
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return WriteError::Changed(path.clone());
        }
        WriteError::failed(path, "be written anew", source)
    }

    /// Checks that the name still refers to the opened file and that the file is unchanged.
    fn check_unchanged(&self, sys: &Sys) -> Result<(), WriteError> {
        let Self { old, new } = self;
        match sys.stat_at(&new.dir.on().named(old.name(), &old.path)) {
            Ok(now) if now.fingerprint == old.facts.fingerprint => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(WriteError::Changed(old.path.clone())),
            Err(errno) => Err(self.failed("be inspected", errno)),
        }
    }

    /// Renames the new file to the old one's name.
    pub(super) fn replace_old(&mut self, sys: &Sys) -> Result<(), WriteError> {
        // The editor read the old file some time ago; this check leaves only the moment before the
        // rename.
        self.check_unchanged(sys)?;
        let renamed = self.new.rename(self.old.name(), &self.old.path, RenameFlags::empty());
        renamed.map_err(|errno| self.failed("be replaced", errno))
    }

    fn failed(&self, what: &'static str, errno: Errno) -> WriteError {
        WriteError::failed(&self.old.path, what, errno)
    }
}

/// Source and target of a copy.
struct Copy<'a> {
    sys: &'a Sys,
    from: On<'a>,
    to: On<'a>,
}

impl Copy<'_> {
    /// Shares all blocks. Returns false if the file system cannot.
    fn share(&self) -> io::Result<bool> {
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
    fn data(&self, facts: &Facts, len: u64) -> io::Result<()> {
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
            self.sys.read_exact(self.from, &mut buffer[..size], at)?;
            self.sys.write(self.to, &buffer[..size], at)?;
            at += size as u64;
        }
        Ok(())
    }
}
