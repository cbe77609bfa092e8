//! The file system of one file, each of whose reads takes a latency more.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};

use crate::slowfs;

/// Name of the file.
pub(super) const NAME: &str = "image";
const NUMBER: INodeNo = INodeNo(2);
/// Number of reads that the kernel may send before an earlier one is answered.
const MOST_READS: u16 = 512;
/// Time for which the kernel may cache the name and the length.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Called before each read.
pub(super) type Wait = Box<dyn Fn() + Send + Sync>;

/// A file system that shows one file.
pub(super) struct Disk {
    image: File,
    length: u64,
    wait: Wait,
}

impl Disk {
    /// Creates a file system that shows an open file.
    ///
    /// # Errors
    /// Returns an error if the length of the file cannot be read.
    pub(super) fn new(image: File, wait: Wait) -> io::Result<Self> {
        let length = image.metadata()?.len();
        Ok(Self { image, length, wait })
    }

    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_root = number == INodeNo::ROOT;
        let time = SystemTime::UNIX_EPOCH;
        let length = if is_root { 0 } else { self.length };
        FileAttr {
            ino: number,
            size: length,
            blocks: length.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o555 } else { 0o400 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn bytes(&self, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let left = self.length.saturating_sub(offset).min(u64::from(size));
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        self.image.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, the kernel would wait for each read before it sends the next one.
        if config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).is_err() {
            return Err(io::Error::other("this kernel has no asynchronous direct reads on FUSE"));
        }
        slowfs::allow_background(config, MOST_READS);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&REMEMBERED, &self.attributes(NUMBER), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBERED, &self.attributes(number));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Nothing is cached below the loop device.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        (self.wait)();
        match self.bytes(offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }
}
