//! Overwrites a file and keeps its inode. After a crash at any point the edit can be completed or
//! undone.
//!
//! First the patch's ranges beyond the old end are written: the leader, which records the old
//! length, and after it is synced the rest, including the trailer with the old bytes. They are
//! synced before the first byte inside the file is overwritten. Until then the file has its old
//! content and additional bytes, which the leader identifies. After that the trailer has everything
//! needed for an undo. Undoing an edit shortens the file: the restored ranges are synced before the
//! trailer is cut off.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use becalm_core::fs::FileId;
use becalm_core::patch::{Patch, Write};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::{HALF_WRITTEN, READ_ONLY, WriteError};
use super::file::{self, FileUnderEdit};
use super::sys::{At, On, Sys};
use super::{WriteOptions, metadata};
use crate::facts::Facts;

/// `f_type` of overlayfs, from `linux/magic.h`.
const OVERLAYFS: u64 = 0x794c_7630;

/// A file to be overwritten.
pub(super) struct InPlace {
    sys: Sys,
    pub(super) old: FileUnderEdit,
    pub(super) fd: OwnedFd,
    /// The file's state after the last write of this edit.
    grown: Facts,
    /// Ranges still to be written beyond the end, in ascending order.
    beyond: Vec<Write>,
    /// Ranges inside the old length, and their old bytes.
    inside: Vec<Write>,
    old_bytes: Vec<Write>,
    length: u64,
    keep_times: bool,
    /// True as long as the file has at most grown, so that truncating it undoes the edit.
    is_whole: bool,
}

/// Returns the error for rights that the kernel would remove.
pub(super) fn removes_rights(path: &Path, what: &str) -> WriteError {
    let why = format!("writing it in place would remove its {what}; replace it instead");
    WriteError::refused(path, why)
}

impl InPlace {
    /// Opens the file for writing, reads the bytes that will be overwritten, and writes the first
    /// range beyond the end.
    pub(super) fn prepare(
        sys: &Sys,
        old: FileUnderEdit,
        patch: Patch,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        // The kernel removes capabilities at a write (`file_remove_privs`), and only privileged
        // users can set them again.
        if metadata::has_capabilities(sys, old.on()) {
            return Err(removes_rights(&old.path, "file capabilities"));
        }
        let (fd, grown) = open_to_write(sys, &old)?;
        let size = old.facts.fingerprint.size;
        let length = patch.length;
        let (inside, mut beyond) = split(patch, size);
        // The rest waits until the leader is synced.
        let rest = beyond.split_off(beyond.len().min(1));
        // Created before the first write, so that dropping it undoes what was written.
        let mut prepared = Self {
            sys: sys.clone(),
            old,
            fd,
            grown,
            beyond,
            inside,
            old_bytes: Vec::new(),
            length,
            keep_times: options.keep_times,
            is_whole: true,
        };
        prepared.read_old_bytes().map_err(|error| prepared.failed("be read", error))?;
        prepared.grow()?;
        prepared.beyond = rest;
        Ok(prepared)
    }

    /// Writes the remaining ranges beyond the end and sets the file's length.
    pub(super) fn extend(&mut self) -> Result<(), WriteError> {
        if !self.has_grown() {
            return Ok(());
        }
        self.check_unchanged()?;
        self.grow()?;
        // The last range may end before the new length.
        if self.grown.fingerprint.size < self.length {
            let set = self.sys.set_length(self.on(), self.length);
            self.grown = self.stat()?;
            set.map_err(|errno| self.failed("be extended", errno))?;
        }
        Ok(())
    }

    fn read_old_bytes(&mut self) -> io::Result<()> {
        for Write { offset, bytes } in &self.inside {
            let (offset, mut bytes) = (*offset, vec![0; bytes.len()]);
            self.sys.read_exact(self.on(), &mut bytes, offset)?;
            self.old_bytes.push(Write { offset, bytes });
        }
        Ok(())
    }

    fn write(&self, ranges: &[Write]) -> Result<(), Errno> {
        let one = |it: &Write| self.sys.write(self.on(), &it.bytes, it.offset);
        ranges.iter().try_for_each(one)
    }

    /// Writes the ranges in `beyond`.
    fn grow(&mut self) -> Result<(), WriteError> {
        let written = self.write(&self.beyond);
        // Read even after a failed write, because `drop` compares the file with this state.
        self.grown = self.stat()?;
        written.map_err(|errno| self.failed("be extended", errno))
    }

    /// Checks that the path still names the file and that only this edit has changed it.
    fn check_unchanged(&self) -> Result<(), WriteError> {
        let path = &self.old.path;
        let named = self.sys.stat_at(&At::here(path));
        let still_named = named.is_ok_and(|named| named.fingerprint.id == self.id());
        if still_named && self.stat()?.fingerprint == self.grown.fingerprint {
            Ok(())
        } else {
            Err(WriteError::Changed(path.clone()))
        }
    }

    /// Overwrites the bytes inside. If a write fails, restores the old bytes.
    pub(super) fn overwrite(&mut self) -> Result<(), WriteError> {
        self.check_unchanged()?;
        // Before the first write: after a part of it, truncation alone would not undo the edit.
        self.is_whole = false;
        self.write(&self.inside).map_err(|errno| self.restore(errno.into()))?;
        // The times are set after the truncation, which would change them again.
        if self.shortens() {
            return Ok(());
        }
        self.restore_times()
    }

    pub(super) fn on(&self) -> On<'_> {
        On { path: &self.old.path, fd: &self.fd }
    }

    /// Returns true if the patch makes the file longer.
    pub(super) fn has_grown(&self) -> bool {
        self.length > self.old.facts.fingerprint.size
    }

    /// Returns true if the patch makes the file shorter.
    pub(super) fn shortens(&self) -> bool {
        self.length < self.old.facts.fingerprint.size
    }

    /// Returns the device and inode of the file opened for writing.
    pub(super) fn id(&self) -> FileId {
        self.grown.fingerprint.id
    }

    /// Truncates the file if the patch makes it shorter.
    pub(super) fn shorten(&mut self) -> Result<(), WriteError> {
        if !self.shortens() {
            return Ok(());
        }
        let cut = self.sys.set_length(self.on(), self.length);
        cut.map_err(|errno| self.half_written(errno.into()))?;
        self.restore_times()
    }

    fn restore_times(&self) -> Result<(), WriteError> {
        if !self.keep_times {
            return Ok(());
        }
        let set = self.sys.set_times(self.on(), &self.old.facts.times());
        set.map_err(|errno| self.failed("have its times kept", errno))
    }

    /// Restores the old bytes after `cause`, in the order of an undo.
    fn restore(&mut self, cause: io::Error) -> WriteError {
        // Synced before the length is restored, because the trailer has the only other copy of these
        // bytes.
        let restored = self.write(&self.old_bytes).and_then(|()| self.sys.sync(self.on()));
        if restored.is_err() {
            return self.half_written(cause);
        }
        // Dropping restores the length.
        self.is_whole = true;
        if let Ok(now) = self.stat() {
            self.grown = now;
        }
        self.failed("be written over", cause)
    }

    fn half_written(&self, source: io::Error) -> WriteError {
        WriteError::of(&self.old.path, HALF_WRITTEN, source)
    }

    fn stat(&self) -> Result<Facts, WriteError> {
        let facts = self.sys.stat(self.on());
        facts.map_err(|errno| self.failed("be inspected", errno))
    }

    fn failed(&self, what: &'static str, source: impl Into<io::Error>) -> WriteError {
        WriteError::failed(&self.old.path, what, source)
    }
}

impl Drop for InPlace {
    /// Truncates the file to its old length if nothing inside was overwritten and no other program
    /// has changed the length.
    fn drop(&mut self) {
        let (on, old) = (self.on(), &self.old.facts);
        let Ok(now) = self.sys.stat(on) else { return };
        let ours = old.fingerprint.size..=self.length;
        if !self.is_whole || !ours.contains(&now.fingerprint.size) {
            return;
        }
        if now.fingerprint.size != old.fingerprint.size {
            let _ = self.sys.set_length(on, old.fingerprint.size);
        }
        // The old times are restored only if the last change of the content was this edit's.
        let only_by_us = now.fingerprint.mtime == self.grown.fingerprint.mtime;
        if only_by_us && now.fingerprint.mtime != old.fingerprint.mtime {
            let _ = self.sys.set_times(on, &old.times());
        }
    }
}

/// Splits the patch into ranges inside `size` and ranges beyond it. A range across `size` is split.
fn split(patch: Patch, size: u64) -> (Vec<Write>, Vec<Write>) {
    let (mut inside, mut beyond) = (Vec::new(), Vec::new());
    for write in patch.writes {
        let within = size.saturating_sub(write.offset).min(write.bytes.len() as u64);
        let mut first = write.bytes;
        let second = first.split_off(within as usize);
        if !first.is_empty() {
            inside.push(Write { offset: write.offset, bytes: first });
        }
        if !second.is_empty() {
            beyond.push(Write { offset: write.offset + within, bytes: second });
        }
    }
    (inside, beyond)
}

/// Opens the file again for writing and checks that it is the same.
fn open_to_write(sys: &Sys, old: &FileUnderEdit) -> Result<(OwnedFd, Facts), WriteError> {
    let path = &old.path;
    let failed = |errno: Errno| WriteError::failed(path, "be opened", errno);
    let mut made_writable = false;
    let fd = match sys.open(path, OFlags::RDWR) {
        Err(Errno::ACCESS) if rustix::process::geteuid().as_raw() == old.facts.fingerprint.uid => {
            made_writable = true;
            open_read_only_file(sys, old)
        }
        fd => fd,
    };
    let fd = fd.map_err(|errno| match errno {
        // The kernel denies writes to the file of a running program, but not to a mapped library
        // (open(2), "ETXTBSY").
        Errno::TXTBSY => {
            WriteError::refused(path, "is being executed and cannot be written in place")
        }
        Errno::ROFS => WriteError::refused(path, READ_ONLY),
        errno => failed(errno),
    })?;
    let on = On { path, fd: &fd };
    let now = sys.stat(on).map_err(failed)?;
    let is_overlay = || rustix::fs::fstatfs(&fd).is_ok_and(|it| it.f_type as u64 == OVERLAYFS);
    let mut expected = old.facts.fingerprint;
    if made_writable {
        // The two changes of the mode have updated it.
        expected.ctime = now.fingerprint.ctime;
    }
    if now.fingerprint != expected && is_overlay() {
        // Opening for writing has copied the file to the upper layer of an overlay. The copy has
        // another inode, which is not locked yet.
        (expected.id, expected.ctime) = (now.fingerprint.id, now.fingerprint.ctime);
        if now.fingerprint.id != old.facts.fingerprint.id && now.fingerprint == expected {
            file::lock(sys, on)?;
        }
    }
    if now.fingerprint == expected { Ok((fd, now)) } else { Err(WriteError::Changed(path.clone())) }
}

/// Opens a file that this user owns and whose mode forbids writing. The mode is the same
/// afterwards.
fn open_read_only_file(sys: &Sys, old: &FileUnderEdit) -> Result<OwnedFd, Errno> {
    let mode = old.facts.fingerprint.mode;
    sys.set_mode(old.on(), mode | 0o200)?;
    let fd = sys.open(&old.path, OFlags::RDWR);
    // The mode is restored even if the open failed.
    sys.set_mode(old.on(), mode)?;
    fd
}
