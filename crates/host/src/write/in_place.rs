//! Writing over a file, its inode kept, so that a crash at any point can be finished or taken
//! back.
//!
//! What the patch puts beyond the old end is written first: its leader, which says where the
//! file ended, and once that has reached the disk the rest, the trailer with the old bytes
//! included. That too reaches the disk before the first byte inside is overwritten. Until then
//! the file is the old one with something behind it that the leader tells apart; from then on
//! the trailer tells how to get back. Taking an edit back shortens the file: then the ranges
//! reach the disk before the trailer goes.

use std::io;
use std::os::fd::OwnedFd;

use becalm_core::fs::FileId;
use becalm_core::patch::Patch;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::WriteError;
use super::file::{self, FileUnderEdit};
use super::fingerprint::Facts;
use super::sys::{self, Sys};
use super::{WriteOptions, metadata, reader};

/// `f_type` of overlayfs, from `linux/magic.h`.
const OVERLAYFS: u64 = 0x794c_7630;

/// A file that is about to be written over.
pub(super) struct InPlace {
    sys: Sys,
    pub(super) old: FileUnderEdit,
    pub(super) fd: OwnedFd,
    /// The file once what was written so far was written.
    grown: Facts,
    /// What is still to be written beyond its end, in ascending order.
    beyond: Ranges,
    inside: Vec<Inside>,
    pub(super) length: u64,
    keep_times: bool,
    stage: Stage,
}

/// Bytes inside the old length.
struct Inside {
    offset: u64,
    new: Vec<u8>,
    old: Vec<u8>,
}

/// How far it has come, which says what taking it back means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// At most grown at its end.
    Outside,
    /// Bytes inside are being overwritten.
    Inside,
    Done,
}

impl InPlace {
    /// Opens the file for writing, remembers the bytes to be overwritten and writes the first
    /// that goes beyond the end.
    pub(super) fn prepare(
        sys: &Sys,
        old: FileUnderEdit,
        patch: Patch,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        if metadata::has_capabilities(sys, &old.path, &old.reader.file) {
            let what = "file capabilities";
            return Err(WriteError::RightsInPlace { path: old.path.clone(), what });
        }
        let (fd, grown) = open_to_write(sys, &old)?;
        let size = old.facts.fingerprint.size;
        let length = patch.length;
        let (inside, mut beyond) = split(patch, size);
        let rest = beyond.split_off(beyond.len().min(1));
        let mut prepared = Self {
            sys: sys.clone(),
            old,
            fd,
            grown,
            beyond,
            inside: Vec::new(),
            length,
            keep_times: options.keep_times,
            stage: Stage::Outside,
        };
        prepared.remember(inside).map_err(|error| prepared.failed("be read", error))?;
        prepared.grow()?;
        prepared.beyond = rest;
        Ok(prepared)
    }

    /// Writes the rest of what goes beyond the end, and gives the file its length.
    pub(super) fn extend(&mut self) -> Result<(), WriteError> {
        if !self.has_grown() {
            return Ok(());
        }
        self.is_ours()?;
        self.grow()?;
        if self.grown.fingerprint.size < self.length {
            let set = self.sys.set_length(&self.old.path, &self.fd, self.length);
            self.grown = self.stat()?;
            set.map_err(|errno| self.failed("be extended", sys::error(errno)))?;
        }
        Ok(())
    }

    fn remember(&mut self, ranges: Vec<(u64, Vec<u8>)>) -> io::Result<()> {
        for (offset, new) in ranges {
            let mut old = vec![0; new.len()];
            reader::read_exact(&self.sys, &self.old.path, &self.fd, &mut old, offset)?;
            self.inside.push(Inside { offset, new, old });
        }
        Ok(())
    }

    /// Writes what is to be written beyond the end now.
    fn grow(&mut self) -> Result<(), WriteError> {
        let all = |(offset, bytes): &(u64, Vec<u8>)| {
            self.sys.write(&self.old.path, &self.fd, bytes, *offset)
        };
        let written = self.beyond.iter().try_for_each(all);
        self.grown = self.stat()?;
        written.map_err(|errno| self.failed("be extended", sys::error(errno)))
    }

    /// That the file is still named as it was, and as we left it.
    fn is_ours(&self) -> Result<(), WriteError> {
        let path = &self.old.path;
        let named = self.sys.stat_at(path, rustix::fs::CWD, path.as_os_str());
        let still_named = named.is_ok_and(|named| named.fingerprint.id == self.id());
        if still_named && self.stat()?.fingerprint == self.grown.fingerprint {
            Ok(())
        } else {
            Err(WriteError::Changed { path: path.clone() })
        }
    }

    /// Overwrites the bytes inside; where that fails, puts the old ones back.
    pub(super) fn overwrite(&mut self) -> Result<(), WriteError> {
        self.is_ours()?;
        let path = &self.old.path;
        self.stage = Stage::Inside;
        for range in &self.inside {
            if let Err(errno) = self.sys.write(path, &self.fd, &range.new, range.offset) {
                return Err(self.take_back(sys::error(errno)));
            }
        }
        if self.shortens() {
            return Ok(());
        }
        self.stage = Stage::Done;
        self.restore_times()
    }

    /// True where the patch wrote something beyond the old end.
    pub(super) fn has_grown(&self) -> bool {
        self.length > self.old.facts.fingerprint.size
    }

    /// True where the file is to be shorter than it was.
    pub(super) fn shortens(&self) -> bool {
        self.length < self.old.facts.fingerprint.size
    }

    /// Device and inode, once it is open for writing.
    pub(super) fn id(&self) -> FileId {
        self.grown.fingerprint.id
    }

    /// The bytes inside may not have reached the disk: nothing more is done to the file, whose
    /// trailer still stands.
    pub(super) fn overwritten_unsynced(&mut self, source: io::Error) -> WriteError {
        self.stage = Stage::Done;
        WriteError::NotSynced { path: self.old.path.clone(), source }
    }

    /// Cuts the file where it is to be shorter.
    pub(super) fn shorten(&mut self) -> Result<(), WriteError> {
        if !self.shortens() {
            return Ok(());
        }
        // Every byte inside is as it is to be, and the trailer that comes off says the same:
        // there is nothing to take back.
        self.stage = Stage::Done;
        let cut = self.sys.set_length(&self.old.path, &self.fd, self.length);
        cut.map_err(|errno| self.half_written(sys::error(errno)))?;
        self.restore_times()
    }

    fn restore_times(&self) -> Result<(), WriteError> {
        if !self.keep_times {
            return Ok(());
        }
        let set = self.sys.set_times(&self.old.path, &self.fd, &self.old.facts.times());
        set.map_err(|errno| self.failed("have its times kept", sys::error(errno)))
    }

    /// Puts the old bytes back after `cause`, in the order of an undo.
    fn take_back(&mut self, cause: io::Error) -> WriteError {
        let path = &self.old.path;
        let ranges = || {
            for range in &self.inside {
                self.sys.write(path, &self.fd, &range.old, range.offset)?;
            }
            self.sys.sync(path, &self.fd)
        };
        if ranges().is_err() {
            return self.half_written(cause);
        }
        // What remains is the length, which dropping brings back.
        self.stage = Stage::Outside;
        if let Ok(now) = self.stat() {
            self.grown = now;
        }
        self.failed("be written over", cause)
    }

    fn half_written(&mut self, source: io::Error) -> WriteError {
        self.stage = Stage::Done;
        WriteError::HalfWritten { path: self.old.path.clone(), source }
    }

    fn stat(&self) -> Result<Facts, WriteError> {
        let facts = self.sys.stat(&self.old.path, &self.fd);
        facts.map_err(|errno| self.failed("be looked at", sys::error(errno)))
    }

    fn failed(&self, what: &'static str, source: io::Error) -> WriteError {
        WriteError::Failed { path: self.old.path.clone(), what, source }
    }
}

impl Drop for InPlace {
    /// Takes the growth back where the file was not overwritten, unless something else has
    /// changed its length meanwhile.
    fn drop(&mut self) {
        let (path, old) = (&self.old.path, &self.old.facts);
        let Ok(now) = self.sys.stat(path, &self.fd) else { return };
        let ours = old.fingerprint.size..=self.length;
        if self.stage != Stage::Outside || !ours.contains(&now.fingerprint.size) {
            return;
        }
        if now.fingerprint.size != old.fingerprint.size {
            let _ = self.sys.set_length(path, &self.fd, old.fingerprint.size);
        }
        let only_by_us = now.fingerprint.mtime == self.grown.fingerprint.mtime;
        if only_by_us && now.fingerprint.mtime != old.fingerprint.mtime {
            let _ = self.sys.set_times(path, &self.fd, &old.times());
        }
    }
}

/// The ranges inside `size` and those beyond; one that lies across is cut in two.
fn split(patch: Patch, size: u64) -> (Ranges, Ranges) {
    let (mut inside, mut beyond) = (Vec::new(), Vec::new());
    for write in patch.writes {
        let mount_namespace = size.saturating_sub(write.offset).min(write.bytes.len() as u64);
        let mut first = write.bytes;
        let second = first.split_off(mount_namespace as usize);
        if !first.is_empty() {
            inside.push((write.offset, first));
        }
        if !second.is_empty() {
            beyond.push((write.offset + mount_namespace, second));
        }
    }
    (inside, beyond)
}

/// Ranges of a file: where, and what.
type Ranges = Vec<(u64, Vec<u8>)>;

/// Opens the file a second time, to write, and makes sure that it is the same.
fn open_to_write(sys: &Sys, old: &FileUnderEdit) -> Result<(OwnedFd, Facts), WriteError> {
    let path = &old.path;
    let failed = |source| WriteError::Open { path: path.clone(), source };
    let mut made_writable = false;
    let fd = match sys.open(path, OFlags::RDWR) {
        Err(Errno::ACCESS) if rustix::process::geteuid().as_raw() == old.facts.fingerprint.uid => {
            made_writable = true;
            open_read_only_file(sys, old)
        }
        fd => fd,
    };
    let fd = fd.map_err(|errno| match errno {
        Errno::TXTBSY => WriteError::TextBusy { path: path.clone() },
        Errno::ROFS => WriteError::ReadOnlyFileSystem { path: path.clone() },
        errno => failed(sys::error(errno)),
    })?;
    let now = sys.stat(path, &fd).map_err(|errno| failed(sys::error(errno)))?;
    let mut expected = old.facts.fingerprint;
    if made_writable {
        expected.ctime = now.fingerprint.ctime;
    }
    if now.fingerprint != expected && is_overlay(&fd) {
        // Opening for writing has copied the file to the upper layer: another inode, which
        // the lock is not on yet.
        (expected.id, expected.ctime) = (now.fingerprint.id, now.fingerprint.ctime);
        if now.fingerprint.id != old.facts.fingerprint.id && now.fingerprint == expected {
            file::lock(sys, path, &fd)?;
        }
    }
    if now.fingerprint == expected {
        Ok((fd, now))
    } else {
        Err(WriteError::Changed { path: path.clone() })
    }
}

/// Opens a file of ours that its mode forbids to write, its mode the same afterwards.
fn open_read_only_file(sys: &Sys, old: &FileUnderEdit) -> Result<OwnedFd, Errno> {
    let (path, mode) = (&old.path, old.facts.fingerprint.mode);
    sys.set_mode(path, &*old.reader.file, mode | 0o200)?;
    let fd = sys.open(path, OFlags::RDWR);
    sys.set_mode(path, &*old.reader.file, mode)?;
    fd
}

fn is_overlay(fd: &OwnedFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type as u64 == OVERLAYFS)
}
