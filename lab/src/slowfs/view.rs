//! The file system: maps inode numbers of its own to paths below an open directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry,
    ReplyOpen, Request,
};

use super::THREADS;

/// Time for which the kernel may cache existing names.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Called before each lookup of a name.
pub(super) type Wait = Box<dyn Fn() + Send + Sync>;

/// A slow view of a directory.
pub(super) struct View {
    /// The source. Paths start at this descriptor, which leads to the source even if the view is
    /// mounted over it.
    root: File,
    wait: Wait,
    remembered: Duration,
    /// The times of directories never change.
    has_still_times: bool,
    names: Mutex<Names>,
    files: Mutex<HashMap<u64, Arc<File>>>,
}

/// Inode numbers of paths; 1 is the root. Numbers are never freed, because a lab's store is small.
#[derive(Debug)]
struct Names {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, u64>,
}

impl View {
    /// Creates a view of an open directory.
    ///
    /// # Errors
    /// Returns an error if it is not a directory.
    pub(super) fn new(root: File, wait: Wait, forgetful: bool) -> Result<Self> {
        if !root.metadata()?.is_dir() {
            bail!("the source is no directory");
        }
        let remembered = if forgetful { Duration::ZERO } else { REMEMBERED };
        let top = PathBuf::new();
        let names = Names { numbers: HashMap::from([(top.clone(), 1)]), paths: vec![top] };
        let (names, files) = (Mutex::new(names), Mutex::default());
        Ok(Self { root, wait, remembered, has_still_times: false, names, files })
    }

    /// Lets the times of directories stand still, or not.
    pub(super) fn with_still_times(self, has_still_times: bool) -> Self {
        Self { has_still_times, ..self }
    }

    fn attributes(&self, number: INodeNo, found: &Metadata) -> Result<FileAttr, Errno> {
        let still = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let attributes = attributes(number, found)?;
        Ok(match self.has_still_times && found.is_dir() {
            true => FileAttr { atime: still, mtime: still, ctime: still, ..attributes },
            false => attributes,
        })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        // No statement leaves the table half changed, so it can be used after a panic.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the real path of an inode number.
    fn real(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        let path = self.names().path(number)?;
        Ok(self.real_path(&path))
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        Path::new("/proc/self/fd").join(self.root.as_raw_fd().to_string()).join(path)
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        (self.wait)();
        let path = self.names().path(parent)?.join(name);
        let found = fs::symlink_metadata(self.real_path(&path))?;
        let number = self.names().number(path);
        self.attributes(number, &found)
    }

    fn about(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let path = self.real(number)?;
        // The root's own path is a symbolic link in /proc.
        let found =
            if number == INodeNo::ROOT { fs::metadata(path) } else { fs::symlink_metadata(path) };
        self.attributes(number, &found?)
    }

    fn list(&self, number: INodeNo) -> Result<Vec<(FileType, std::ffi::OsString)>, Errno> {
        let mut entries =
            vec![(FileType::Directory, ".".into()), (FileType::Directory, "..".into())];
        for entry in fs::read_dir(self.real(number)?)? {
            let entry = entry?;
            if let Some(kind) = FileType::from_std(entry.file_type()?) {
                entries.push((kind, entry.file_name()));
            }
        }
        // An offset must refer to the same entry in the next call.
        entries[2..].sort_by(|a, b| a.1.cmp(&b.1));
        Ok(entries)
    }

    fn bytes(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = self.files().get(&handle.0).cloned().ok_or(Errno::EBADF)?;
        let mut bytes = vec![0; size as usize];
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn open_file(&self, number: INodeNo) -> Result<FileHandle, Errno> {
        let file = Arc::new(File::open(self.real(number)?)?);
        let mut files = self.files();
        let handle = (1..).find(|handle| !files.contains_key(handle)).unwrap_or(0);
        files.insert(handle, file);
        Ok(FileHandle(handle))
    }
}

impl Names {
    fn path(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        let at = usize::try_from(number.0).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| self.paths.get(at)).cloned().ok_or(Errno::ENOENT)
    }

    fn number(&mut self, path: PathBuf) -> INodeNo {
        if let Some(number) = self.numbers.get(&path) {
            return INodeNo(*number);
        }
        self.paths.push(path.clone());
        let number = self.paths.len() as u64;
        self.numbers.insert(path, number);
        INodeNo(number)
    }
}

fn attributes(number: INodeNo, found: &Metadata) -> Result<FileAttr, Errno> {
    Ok(FileAttr {
        ino: number,
        size: found.size(),
        blocks: found.blocks(),
        atime: found.accessed().unwrap_or(SystemTime::UNIX_EPOCH),
        mtime: found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        ctime: SystemTime::UNIX_EPOCH
            + Duration::from_secs(u64::try_from(found.ctime()).unwrap_or(0)),
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::from_std(found.file_type()).ok_or(Errno::EIO)?,
        perm: (found.mode() & 0o7777) as u16,
        nlink: u32::try_from(found.nlink()).unwrap_or(u32::MAX),
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: u32::try_from(found.blksize()).unwrap_or(4096),
        flags: 0,
    })
}

impl Filesystem for View {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, the kernel would look up one name of a directory at a time.
        if config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS).is_err() {
            return Err(io::Error::other("this kernel has no parallel lookups on FUSE"));
        }
        let _ = config.set_max_background(THREADS as u16);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(found) => reply.entry(&self.remembered, &found, Generation(0)),
            // The kernel caches an entry without an inode number, but not an error.
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.about(number) {
            Ok(found) => reply.attr(&self.remembered, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.real(number).and_then(|path| Ok(fs::read_link(path)?)) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number) {
            // The kernel may cache the content: lookups are slow here, not reads.
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.bytes(handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: fuser::ReplyEmpty,
    ) {
        self.files().remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.list(number) {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (kind, name)) in entries.iter().enumerate().skip(from) {
            // This number means "not looked up yet".
            if reply.add(INodeNo(u64::MAX), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
