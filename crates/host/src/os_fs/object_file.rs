//! Opens a file and reads the ranges that a loader needs.
//!
//! Files are read with `pread` and not mapped. If a file is truncated meanwhile, a read returns
//! fewer bytes and no signal is raised.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use becalm_core::elf::{self, ElfError, ObjectView};
use becalm_core::fs::{Errno, FileKind, OpenedFile};
use rustix::fs::FileType;

use super::root::{self, Root};
use crate::facts::Facts;
use crate::fingerprint::Fingerprint;
use crate::reader::{Reader, fill};

/// Number of bytes in [`OpenedFile::head`].
const HEAD: usize = 64;
/// Maximum size of a file that is read whole, in bytes.
const MAX_READ: u64 = 64 * 1024 * 1024;
/// `EFBIG`, for a file above the limit.
const TOO_BIG: Errno = Errno(27);

/// The result of opening a file.
pub(super) type Opened = Result<Arc<OpenedFile>, Errno>;

/// Opens and reads the file that `stat` has just described. Returns the state in which the same result
/// counts again; it is that of the opened file, which may have replaced the other. `None` if a read failed.
pub(super) fn open(root: &Root, path: &[u8], stat: &Facts) -> (Option<Fingerprint>, Opened) {
    if stat.kind() == FileKind::Other {
        return (None, special(root, path, stat));
    }
    let (file, stat) = match opened(root, path) {
        Ok(opened) => opened,
        Err(errno) => {
            // A refusal depends on mode, owner and ACL, and each change of those sets ctime.
            let is_refusal = matches!(errno, Errno::ACCES | Errno::PERM);
            return (is_refusal.then_some(stat.fingerprint), Err(errno));
        }
    };
    if stat.kind() != FileKind::File {
        let is_directory = stat.kind() == FileKind::Directory;
        let unread = unread(&stat, not_a_file(&stat));
        return (is_directory.then_some(stat.fingerprint), Ok(unread));
    }
    let reader = Reader::new(stat.fingerprint.size, move |bytes, from| {
        fill(bytes, from, |bytes, at| rustix::io::pread(&file, bytes, at))
    });
    // Reaching the end or the limits too early is no error here.
    let failed = || {
        reader.error().and_then(io::Error::raw_os_error).map_or(Ok(()), |errno| Err(Errno(errno)))
    };
    let head = reader.head();
    let head = failed().map(|()| head[..head.len().min(HEAD)].to_vec());
    let object = elf::parse(&reader);
    let readable = failed();
    let object = match readable {
        Err(errno) => Err(ElfError::Unreadable(errno.0)),
        Ok(()) => object.map(Arc::new),
    };
    (readable.ok().map(|()| stat.fingerprint), Ok(file_of(&stat, head, object)))
}

/// Returns the result of opening a FIFO, socket or device without opening it, because `open` could
/// block or have side effects.
fn special(root: &Root, path: &[u8], stat: &Facts) -> Opened {
    root.may_read(path)?;
    // `open` of a socket fails with `ENXIO` (open(2)).
    if stat.file_type == FileType::Socket {
        return Err(Errno::NXIO);
    }
    Ok(unread(stat, Errno::NXIO))
}

/// Returns the error of reading something that is not a regular file.
fn not_a_file(stat: &Facts) -> Errno {
    if stat.kind() == FileKind::Directory { Errno::ISDIR } else { Errno::NXIO }
}

/// Returns a file that opens and cannot be read.
fn unread(stat: &Facts, errno: Errno) -> Arc<OpenedFile> {
    file_of(stat, Err(errno), Err(ElfError::Unreadable(errno.0)))
}

fn file_of(
    stat: &Facts,
    head: Result<Vec<u8>, Errno>,
    object: Result<Arc<ObjectView>, ElfError>,
) -> Arc<OpenedFile> {
    let Fingerprint { id, mode, size, .. } = stat.fingerprint;
    Arc::new(OpenedFile { id, mode, len: size, head, object })
}

/// Opens and reads a whole file of up to 64 MB (`EFBIG` above), which `stat` has just described. Returns
/// the state of the opened file, too.
pub(super) fn read_whole(
    root: &Root,
    path: &[u8],
    stat: &Facts,
) -> Result<(File, Facts, Vec<u8>), Errno> {
    if stat.kind() == FileKind::Other {
        root.may_read(path)?;
        return Err(Errno::NXIO);
    }
    let (file, stat) = open_file(root, path)?;
    if stat.fingerprint.size > MAX_READ {
        return Err(TOO_BIG);
    }
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the file is too long.
    let read = (&file).take(MAX_READ + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    if bytes.len() as u64 > MAX_READ { Err(TOO_BIG) } else { Ok((file, stat, bytes)) }
}

/// Opens a regular file to read it. Returns its state, too.
pub(super) fn open_file(root: &Root, path: &[u8]) -> Result<(File, Facts), Errno> {
    let (file, stat) = opened(root, path)?;
    if stat.kind() == FileKind::File { Ok((file.into(), stat)) } else { Err(not_a_file(&stat)) }
}

/// Opens a file to read it. Returns its state, too.
fn opened(root: &Root, path: &[u8]) -> Result<(OwnedFd, Facts), Errno> {
    let file = root.open_to_read(path)?;
    let stat = Facts::of(&file).map_err(root::errno)?;
    Ok((file, stat))
}
