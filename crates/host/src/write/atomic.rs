//! Replaces a file: writes a temporary file with the old one's metadata and renames it to the old
//! name.

use std::io;
use std::sync::Arc;

use becalm_core::patch::Patch;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::copy::Copy;
use super::dir::Dir;
use super::error::WriteError;
use super::file::FileUnderEdit;
use super::sys::Sys;
use super::temporary::Temporary;
use super::{WriteOptions, blocks, metadata};

/// A complete temporary file and the file that it will replace.
pub(super) struct Atomic {
    pub(super) old: FileUnderEdit,
    pub(super) new: Temporary,
    /// Length of the new content, in bytes.
    pub(super) length: u64,
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
        let prepared = Self { old, new, length: patch.length };
        prepared.check_unchanged(sys)?;
        prepared.fill(sys, patch).map_err(|error| prepared.not_filled(error))?;
        metadata::copy(sys, &prepared.old, &prepared.new, options.keep_times)?;
        Ok(prepared)
    }

    fn fill(&self, sys: &Sys, patch: &Patch) -> io::Result<()> {
        let Self { old, new, .. } = self;
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
        let Self { old, new, .. } = self;
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
