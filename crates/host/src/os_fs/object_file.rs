//! Opens a file and reads the ranges that a loader needs.
//!
//! Files are read with `pread` and not mapped. If a file is truncated meanwhile, a read returns
//! fewer bytes and no signal is raised.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use becalm_core::elf::{self, ElfError};
use becalm_core::fs::{Errno, FileKind, OpenedFile};
use object::ReadRef;

use super::root::{self, Root};
use super::stat::Stat;
use crate::ranges::{self, Limits, Ranges};

/// Number of bytes in [`OpenedFile::head`].
const HEAD: usize = 64;
/// Minimum size and alignment of a read, in bytes.
const BLOCK: u64 = 8 * 1024;
/// Maximum number of bytes read of one file, whatever its tables claim.
const MAX_READ: u64 = 64 * 1024 * 1024;
/// Maximum number of ranges read of one file.
const MAX_RANGES: usize = 1024;
/// `EFBIG`, for a file above the limit.
const TOO_BIG: Errno = Errno(27);

/// The result of opening a file.
pub(super) struct Opened {
    /// State of the opened file, which may have replaced the file of the earlier `stat`.
    pub(super) stat: Stat,
    pub(super) result: Result<Arc<OpenedFile>, Errno>,
    /// True if every read succeeded, so that the result can be cached.
    pub(super) readable: bool,
}

/// Opens and reads the file that `stat` has just described.
pub(super) fn open(root: &Root, path: &[u8], stat: &Stat) -> Opened {
    if stat.kind == FileKind::Other {
        return Opened { stat: *stat, result: special(root, path, stat), readable: false };
    }
    let file = match root.open_to_read(path) {
        Ok(file) => file,
        Err(errno) => return Opened { stat: *stat, result: Err(errno), readable: false },
    };
    let stat = match rustix::fs::fstat(&file) {
        Ok(found) => Stat::new(&found),
        Err(error) => {
            let result = Err(root::errno(error));
            return Opened { stat: *stat, result, readable: false };
        }
    };
    if stat.kind != FileKind::File {
        let result = Ok(unread(&stat, not_a_file(&stat)));
        return Opened { stat, result, readable: stat.kind == FileKind::Directory };
    }
    let reader = Reader::new(file, stat.fingerprint.size);
    let head = reader.head();
    let object = elf::parse(&reader);
    let failed = reader.failed.get().copied();
    let object = match failed {
        Some(errno) => Err(ElfError::Unreadable(errno.0)),
        None => object.map(Arc::new),
    };
    let opened = OpenedFile {
        id: stat.fingerprint.id,
        mode: stat.fingerprint.mode,
        len: stat.fingerprint.size,
        head,
        object,
    };
    Opened { stat, result: Ok(Arc::new(opened)), readable: failed.is_none() }
}

/// Returns the result of opening a FIFO, socket or device without opening it, because `open` could
/// block or have side effects.
fn special(root: &Root, path: &[u8], stat: &Stat) -> Result<Arc<OpenedFile>, Errno> {
    root.may_read(path)?;
    // `open` of a socket fails with `ENXIO` (open(2)).
    if stat.socket {
        return Err(Errno::NXIO);
    }
    Ok(unread(stat, Errno::NXIO))
}

/// Returns the error of reading something that is not a regular file.
fn not_a_file(stat: &Stat) -> Errno {
    if stat.kind == FileKind::Directory { Errno::ISDIR } else { Errno::NXIO }
}

/// Returns a file that opens and cannot be read.
fn unread(stat: &Stat, errno: Errno) -> Arc<OpenedFile> {
    Arc::new(OpenedFile {
        id: stat.fingerprint.id,
        mode: stat.fingerprint.mode,
        len: stat.fingerprint.size,
        head: Err(errno),
        object: Err(ElfError::Unreadable(errno.0)),
    })
}

/// Reads a whole file of up to 64 MB (`EFBIG` above).
pub(super) fn read_whole(root: &Root, path: &[u8], stat: &Stat) -> Result<Vec<u8>, Errno> {
    if stat.kind == FileKind::Other {
        root.may_read(path)?;
        return Err(Errno::NXIO);
    }
    let (file, stat) = open_file(root, path)?;
    if stat.fingerprint.size > MAX_READ {
        return Err(TOO_BIG);
    }
    // One byte more than the limit shows that the file is too long.
    let bytes = read_up_to(&file, &stat, MAX_READ + 1)?;
    if bytes.len() as u64 > MAX_READ { Err(TOO_BIG) } else { Ok(bytes) }
}

/// Opens a regular file to read it. Returns its state, too.
pub(super) fn open_file(root: &Root, path: &[u8]) -> Result<(File, Stat), Errno> {
    let file = root.open_to_read(path)?;
    let stat = Stat::new(&rustix::fs::fstat(&file).map_err(root::errno)?);
    if stat.kind == FileKind::File { Ok((file.into(), stat)) } else { Err(not_a_file(&stat)) }
}

/// Reads an open file to its end, at most so many bytes. Files of /proc have the length 0 in `stat`.
pub(super) fn read_up_to(file: &File, stat: &Stat, most: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::with_capacity(capacity_for(stat));
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    Ok(bytes)
}

/// Returns the capacity for a file whose length is claimed by `stat`. An unusually large claim gets
/// only a few pages.
fn capacity_for(stat: &Stat) -> usize {
    const USUAL: u64 = 1024 * 1024;
    if stat.fingerprint.size < USUAL { stat.fingerprint.size as usize + 1 } else { BLOCK as usize }
}

/// A file as a cache of the ranges that were read.
#[derive(Debug)]
struct Reader {
    file: OwnedFd,
    len: u64,
    kept: Ranges,
    /// The first error of reading. Reaching the end too early is no error here.
    failed: OnceCell<Errno>,
}

impl Reader {
    fn new(file: OwnedFd, len: u64) -> Self {
        Self { file, len, kept: Ranges::default(), failed: OnceCell::new() }
    }

    /// Returns the first bytes of the file, whatever length it claims.
    fn head(&self) -> Result<Vec<u8>, Errno> {
        let bytes = self.kept.first(|| self.read(0, BLOCK));
        match self.failed.get() {
            Some(errno) => Err(*errno),
            None => Ok(bytes[..bytes.len().min(HEAD)].to_vec()),
        }
    }

    /// Returns `size` bytes from `offset` on, from the cache or from the file.
    fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        if offset.checked_add(size)? > self.len || size > MAX_READ {
            return None;
        }
        let start = offset - offset % BLOCK;
        let wanted = (offset - start + size).next_multiple_of(BLOCK);
        let limits = Limits { bytes: MAX_READ + BLOCK, ranges: MAX_RANGES };
        let read = |start, size| self.read(start, size);
        self.kept.get((offset, size), (start, wanted), limits, read).ok().flatten()
    }

    /// Reads up to `size` bytes, or fewer at the end of the file or after an error.
    fn read(&self, start: u64, size: u64) -> Vec<u8> {
        // A table may claim more bytes than the file has; only the file's length is allocated.
        let size = size.min(self.len.saturating_sub(start).max(BLOCK));
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = start + filled as u64;
            let read = || rustix::io::pread(&self.file, &mut bytes[filled..], at);
            match rustix::io::retry_on_intr(read) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => {
                    let _ = self.failed.set(root::errno(error));
                    break;
                }
            }
        }
        bytes.truncate(filled);
        bytes
    }
}

impl<'d> ReadRef<'d> for &'d Reader {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size == 0 { Ok(&[]) } else { self.get(offset, size).ok_or(()) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        ranges::until(range, delimiter, self.len, |offset, size| self.get(offset, size))
    }
}
