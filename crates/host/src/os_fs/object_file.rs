//! Opening a file and reading of it what a loader needs, in a few ranges.
//!
//! Files are read with `pread`, not mapped: one that is truncated meanwhile gives a
//! short read instead of a signal.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use becalm_core::elf::{self, ElfError};
use becalm_core::fs::{Errno, FileKind, OpenedFile};
use object::ReadRef;

use super::fingerprint::Stat;
use super::root::{self, Root};
use crate::ranges::{self, Limits, Ranges};

/// Bytes of a file that [`OpenedFile::head`] holds.
const HEAD: usize = 64;
/// Bytes read at least at once, from a multiple of it.
const BLOCK: u64 = 8 * 1024;
/// Bytes read of one file at the most, whatever its tables claim.
const MAX_READ: u64 = 64 * 1024 * 1024;
/// Ranges read of one file at the most.
const MAX_RANGES: usize = 1024;
/// `EFBIG`: a file larger than any file of its kind.
const TOO_BIG: Errno = Errno(27);

/// What opening a file gave.
pub(super) struct Opened {
    /// Of the file that was opened, which may be another than was asked for.
    pub(super) stat: Stat,
    pub(super) result: Result<Arc<OpenedFile>, Errno>,
    /// True where every read went well, so that the same file will read the same.
    pub(super) readable: bool,
}

/// Opens and reads what `stat` has just described.
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
    let reader = Reader::new(file, stat.fingerprint.len);
    let head = reader.head();
    let object = elf::parse(&reader);
    let failed = reader.failed.get().copied();
    let object = match failed {
        Some(errno) => Err(ElfError::Unreadable(errno.0)),
        None => object.map(Arc::new),
    };
    let opened = OpenedFile {
        id: stat.id,
        mode: stat.fingerprint.mode,
        len: stat.fingerprint.len,
        head,
        object,
    };
    Opened { stat, result: Ok(Arc::new(opened)), readable: failed.is_none() }
}

/// A FIFO, socket or device is never opened: that could wait for ever, or do
/// something. Says what `open` would as far as that is known.
fn special(root: &Root, path: &[u8], stat: &Stat) -> Result<Arc<OpenedFile>, Errno> {
    root.may_read(path)?;
    if stat.socket {
        return Err(Errno::NXIO);
    }
    Ok(unread(stat, Errno::NXIO))
}

/// What reading something that is no regular file gives.
pub(super) fn not_a_file(stat: &Stat) -> Errno {
    if stat.kind == FileKind::Directory { Errno::ISDIR } else { Errno::NXIO }
}

/// A file that opens and cannot be read.
fn unread(stat: &Stat, errno: Errno) -> Arc<OpenedFile> {
    Arc::new(OpenedFile {
        id: stat.id,
        mode: stat.fingerprint.mode,
        len: stat.fingerprint.len,
        head: Err(errno),
        object: Err(ElfError::Unreadable(errno.0)),
    })
}

/// The whole of a file, up to 64 MB (`EFBIG` above).
pub(super) fn read_whole(root: &Root, path: &[u8], stat: &Stat) -> Result<Vec<u8>, Errno> {
    if stat.kind == FileKind::Other {
        root.may_read(path)?;
        return Err(Errno::NXIO);
    }
    let file = root.open_to_read(path)?;
    let stat = Stat::new(&rustix::fs::fstat(&file).map_err(root::errno)?);
    if stat.kind != FileKind::File {
        return Err(not_a_file(&stat));
    }
    if stat.fingerprint.len > MAX_READ {
        return Err(TOO_BIG);
    }
    // Files of /proc claim no length, so the end is where reading ends.
    let mut bytes = Vec::with_capacity(room_for(&stat));
    File::from(file)
        .take(MAX_READ + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    if bytes.len() as u64 > MAX_READ { Err(TOO_BIG) } else { Ok(bytes) }
}

/// Room to read a file of the length that `stat` claims in one piece; no more than a few
/// pages are set aside for a claim beyond that of any usual file of its kind.
pub(super) fn room_for(stat: &Stat) -> usize {
    const USUAL: u64 = 1024 * 1024;
    if stat.fingerprint.len < USUAL { stat.fingerprint.len as usize + 1 } else { BLOCK as usize }
}

/// A file, read in the ranges that are asked for.
#[derive(Debug)]
struct Reader {
    file: OwnedFd,
    len: u64,
    kept: Ranges,
    /// The first error of reading, but for a file that is shorter than it was.
    failed: OnceCell<Errno>,
}

impl Reader {
    fn new(file: OwnedFd, len: u64) -> Self {
        Self { file, len, kept: Ranges::default(), failed: OnceCell::new() }
    }

    /// The first bytes of the file, whatever length it claims.
    fn head(&self) -> Result<Vec<u8>, Errno> {
        let bytes = self.kept.first(|| self.read(0, BLOCK));
        match self.failed.get() {
            Some(errno) => Err(*errno),
            None => Ok(bytes[..bytes.len().min(HEAD)].to_vec()),
        }
    }

    /// `size` bytes from `offset` on, from what was read or from the file.
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

    /// Reads up to `size` bytes, fewer at the end of the file or after an error.
    fn read(&self, start: u64, size: u64) -> Vec<u8> {
        // Nothing is set aside for what the file does not hold.
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
