//! The file system: maps inode numbers of the source to paths below an open directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::changes;
use super::faults::{Refused, answer};
use super::{Options, Step, THREADS, allow_background};

/// Number of slow reads that the kernel may send before an earlier one is answered.
const MOST_READS: u16 = 512;

/// A slow view of a directory.
pub(crate) struct View {
    /// The source. Paths start at this descriptor, which leads to the source even if the view is
    /// mounted over it.
    root: File,
    /// Device of the source. Inode numbers are unique only there.
    device: u64,
    pub(super) options: Options,
    /// The last path at which each inode number was found. None is removed, because a lab's store is
    /// small.
    paths: Mutex<HashMap<INodeNo, PathBuf>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
}

impl View {
    /// Creates a view of an open directory.
    ///
    /// # Errors
    /// Returns an error if it is not a directory.
    pub(crate) fn new(root: File, options: Options) -> Result<Self> {
        let found = root.metadata()?;
        if !found.is_dir() {
            bail!("the source is no directory");
        }
        let paths = Mutex::new(HashMap::from([(INodeNo::ROOT, PathBuf::new())]));
        Ok(Self { root, device: found.dev(), options, paths, files: Mutex::default() })
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<INodeNo, PathBuf>> {
        // No statement leaves the table half changed, so it can be used after a panic.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path in the source. That of the root ends with a slash, which follows the link
    /// in /proc.
    fn real_path(&self, path: &Path) -> PathBuf {
        Path::new("/proc/self/fd").join(self.root.as_raw_fd().to_string()).join(path)
    }

    /// Returns the path below the root, unless requests for it fail.
    fn path(&self, number: INodeNo) -> Result<PathBuf, Refused> {
        let path = self.paths().get(&number).cloned().ok_or(Errno::ESTALE)?;
        (self.options.check)(&path)?;
        Ok(path)
    }

    /// Returns the path in the source and its metadata.
    fn find(&self, number: INodeNo) -> Result<(PathBuf, Metadata), Refused> {
        let path = self.real_path(&self.path(number)?);
        // After ESTALE, the kernel looks a cached name up again, as for NFS.
        let found = fs::symlink_metadata(&path).map_err(|_| Errno::ESTALE)?;
        if number != INodeNo::ROOT && number != shown(found.ino()) {
            return Err(Errno::ESTALE.into());
        }
        Ok((path, found))
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<(FileAttr, Generation), Refused> {
        (self.options.wait)(Step::LookUp);
        let path = self.child(parent, name)?;
        let found = fs::symlink_metadata(self.real_path(&path))?;
        if found.dev() != self.device {
            return Err(Errno::EXDEV.into());
        }
        let number = shown(found.ino());
        self.paths().insert(number, path);
        // A new file may have the number of a removed one.
        let born =
            found.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let generation = Generation(born.map_or(0, |born| born.as_nanos() as u64));
        Ok((self.attributes(number, &found)?, generation))
    }

    /// Returns the path of a name below the root, unless requests for it fail.
    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Refused> {
        let path = self.paths().get(&parent).cloned().ok_or(Errno::ESTALE)?.join(name);
        (self.options.check)(&path)?;
        Ok(path)
    }

    /// Returns the same in the source.
    fn real_child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Refused> {
        Ok(self.real_path(&self.child(parent, name)?))
    }

    fn about(&self, number: INodeNo) -> Result<FileAttr, Refused> {
        (self.options.wait)(Step::Attributes);
        let (_, found) = self.find(number)?;
        // The kernel asks for the root by a number of its own, and shows this one.
        let number = if number == INodeNo::ROOT { INodeNo(found.ino()) } else { number };
        self.attributes(number, &found)
    }

    fn attributes(&self, number: INodeNo, found: &Metadata) -> Result<FileAttr, Refused> {
        let still = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let attributes = attributes(number, found)?;
        Ok(match self.options.has_still_times && found.is_dir() {
            true => FileAttr { atime: still, mtime: still, ctime: still, ..attributes },
            false => attributes,
        })
    }

    fn list(&self, number: INodeNo) -> Result<Vec<(INodeNo, FileType, OsString)>, Refused> {
        let (path, found) = self.find(number)?;
        // A file system's root is its own parent.
        let above =
            if number == INodeNo::ROOT { found.ino() } else { path.join("..").metadata()?.ino() };
        let mut entries = vec![
            (INodeNo(found.ino()), FileType::Directory, ".".into()),
            (INodeNo(above), FileType::Directory, "..".into()),
        ];
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Some(kind) = FileType::from_std(entry.file_type()?) {
                entries.push((shown(entry.ino()), kind, entry.file_name()));
            }
        }
        // An offset must refer to the same entry in the next call.
        entries[2..].sort_by(|a, b| a.2.cmp(&b.2));
        Ok(entries)
    }

    fn bytes(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
    ) -> Result<Vec<u8>, Refused> {
        self.path(number)?;
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

    fn open_file(&self, number: INodeNo, access: OpenAccMode) -> Result<FileHandle, Refused> {
        (self.options.wait)(Step::Open);
        let mut how = File::options();
        how.read(access != OpenAccMode::O_WRONLY).write(access != OpenAccMode::O_RDONLY);
        let file = Arc::new(how.open(self.find(number)?.0)?);
        let mut files = self.files();
        let handle = (1..).find(|handle| !files.contains_key(handle)).unwrap_or(0);
        files.insert(handle, file);
        Ok(FileHandle(handle))
    }

    /// Answers with the attributes of a name. The kernel caches an entry without an inode number, but not an
    /// error.
    fn reply_entry(
        &self,
        request: &Request,
        entry: Result<(FileAttr, Generation), Refused>,
        reply: ReplyEntry,
    ) {
        let Options { attributes_kept, names_kept, .. } = &self.options;
        answer(request, entry, reply, ReplyEntry::error, |reply, (found, generation)| {
            reply.entry_with_ttls(attributes_kept, names_kept, &found, generation);
        });
    }

    /// Makes a name and answers with its attributes.
    fn reply_made(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
        make: impl FnOnce(&Path) -> Result<(), Refused>,
    ) {
        let made = self.real_child(parent, name).and_then(|path| make(&path));
        self.reply_entry(request, made.and_then(|()| self.look_up(parent, name)), reply);
    }

    /// Renames a file or a directory of the source.
    fn rename_to(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Result<(), Refused> {
        let [old, new] = [self.child(from.0, from.1)?, self.child(to.0, to.1)?];
        fs::rename(self.real_path(&old), self.real_path(&new))?;
        changes::follow(self.paths().values_mut(), &old, &new);
        Ok(())
    }

    /// Answers with the attributes of a file.
    fn reply_about(&self, request: &Request, found: Result<FileAttr, Refused>, reply: ReplyAttr) {
        answer(request, found, reply, ReplyAttr::error, |reply, found| {
            reply.attr(&self.options.attributes_kept, &found);
        });
    }
}

/// Answers a request that has no result but its success.
fn reply_done(request: &Request, done: Result<(), Refused>, reply: ReplyEmpty) {
    answer(request, done, reply, ReplyEmpty::error, |reply, ()| reply.ok());
}

/// Answers with bytes.
fn reply_data(request: &Request, bytes: Result<Vec<u8>, Refused>, reply: ReplyData) {
    answer(request, bytes, reply, ReplyData::error, |reply, bytes| reply.data(&bytes));
}

/// Returns the number that the view shows for a file's own.
fn shown(number: u64) -> INodeNo {
    // A file of a squashfs can have the number that FUSE keeps for the root.
    if INodeNo(number) == INodeNo::ROOT { INodeNo(1 << 63) } else { INodeNo(number) }
}

fn attributes(number: INodeNo, found: &Metadata) -> Result<FileAttr, Errno> {
    Ok(FileAttr {
        ino: number,
        size: found.size(),
        blocks: found.blocks(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
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

/// Returns a time of a file. The seconds of one before 1970 are negative, the nanoseconds never.
fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let second = if seconds < 0 { epoch - whole } else { epoch + whole };
    second + Duration::from_nanos(nanoseconds.unsigned_abs())
}

impl Filesystem for View {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let (needed, what, most) = match self.options.read_wait {
            // Without it, the kernel would look up one name of a directory at a time.
            None => (InitFlags::FUSE_PARALLEL_DIROPS, "parallel lookups", THREADS as u16),
            // Without it, the kernel would wait for each read before it sends the next one.
            Some(_) => (InitFlags::FUSE_ASYNC_DIO, "asynchronous direct reads", MOST_READS),
        };
        if config.add_capabilities(needed).is_err() {
            return Err(io::Error::other(format!("this kernel has no {what} on FUSE")));
        }
        allow_background(config, most);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(request, self.look_up(parent, name), reply);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_about(request, self.about(number), reply);
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.find(number).and_then(|(path, _)| Ok(fs::read_link(path)?));
        reply_data(request, target.map(|target| target.into_os_string().into_vec()), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // The kernel may cache the content of a file that does not change: reads are not slow here.
        let kept = match (&self.options.read_wait, self.options.is_writable) {
            (Some(_), _) => FopenFlags::FOPEN_DIRECT_IO,
            (None, true) => FopenFlags::empty(),
            (None, false) => FopenFlags::FOPEN_KEEP_CACHE,
        };
        let opened = self.open_file(number, flags.acc_mode());
        answer(request, opened, reply, ReplyOpen::error, |reply, handle| {
            reply.opened(handle, kept)
        });
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if let Some(wait) = &self.options.read_wait {
            wait();
        }
        reply_data(request, self.bytes(number, handle, offset, size), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files().remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        answer(request, self.list(number), reply, ReplyDirectory::error, |mut reply, entries| {
            for (at, (number, kind, name)) in entries.iter().enumerate().skip(from) {
                if reply.add(*number, at as u64 + 1, *kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.reply_made(request, parent, name, reply, |path| changes::make_file(path, mode));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.reply_made(request, parent, name, reply, |path| changes::make_directory(path, mode));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.reply_made(request, parent, name, reply, |path| Ok(symlink(target, path)?));
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.reply_made(request, parent, name, reply, |path| {
            Ok(fs::hard_link(self.find(number)?.0, path)?)
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = self.real_child(parent, name);
        reply_done(request, path.and_then(|path| Ok(fs::remove_file(path)?)), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = self.real_child(parent, name);
        reply_done(request, path.and_then(|path| Ok(fs::remove_dir(path)?)), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = match flags.is_empty() {
            true => self.rename_to((parent, name), (new_parent, new_name)),
            false => Err(Errno::EINVAL.into()),
        };
        reply_done(request, done, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.find(number).and_then(|(path, _)| {
            changes::change(&path, mode, [user, group], size, [accessed, modified])
        });
        self.reply_about(request, changed.and_then(|()| self.about(number)), reply);
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = self.files().get(&handle.0).cloned();
        let file = file.ok_or(Refused::from(Errno::EBADF));
        let written = file.and_then(|file| Ok(file.write_all_at(bytes, offset)?));
        answer(request, written, reply, ReplyWrite::error, |reply, ()| {
            reply.written(bytes.len() as u32);
        });
    }
}
