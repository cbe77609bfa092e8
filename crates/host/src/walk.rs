//! Finding the objects in the files and folders a user names.
//!
//! Folders are walked in parallel. A file below a folder counts where it is a regular
//! file that begins like ELF or Mach-O; links below a folder are not followed, hard
//! links are taken once. What cannot be read is reported and the rest goes on.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use becalm_core::fs::FileId;
use rayon::Scope;
use rustc_hash::FxHashSet;
use rustix::fs::{CWD, Mode, OFlags};

use crate::HostError;

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `\x7fELF`.
    Elf,
    /// A Mach-O file, thin or universal.
    MachO,
}

/// One file to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path given, or one below a folder given.
    pub path: PathBuf,
    /// By its first bytes; the rest may still be malformed.
    pub format: Format,
    /// Device and inode.
    pub id: FileId,
    /// True where the user named the file itself, not a folder above it.
    pub named: bool,
}

/// How to walk.
#[derive(Clone, Copy, Default)]
pub struct WalkOptions<'a> {
    /// Called after each directory with the number of files seen in it (of any
    /// kind), from several threads: what a progress bar counts.
    pub progress: Option<&'a (dyn Fn(usize) + Sync)>,
}

/// The outcome of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// The files, sorted by path. A file named by the user is always here; of several
    /// names found for one file below folders, the first is.
    pub objects: Vec<Found>,
    /// What could not be read, or was named and is no object, sorted by path.
    pub errors: Vec<HostError>,
}

/// Finds the ELF and Mach-O files among `paths` and below the folders among them. A
/// link among `paths` is followed. Paths are those of this machine (see
/// [`crate::OsFs::host_path`]).
#[must_use]
pub fn find_objects(paths: &[PathBuf], options: WalkOptions<'_>) -> Walked {
    let walk = Walk { options, walked: Mutex::default() };
    rayon::scope(|scope| {
        for path in paths {
            match path.metadata() {
                Err(source) => walk.fail(vec![read_error(path, source)]),
                Ok(found) if found.is_dir() => {
                    let walk = &walk;
                    scope.spawn(move |scope| walk.folder(scope, path));
                }
                Ok(_) => walk.named(path),
            }
        }
    });
    let mut walked = walk.walked.into_inner().unwrap_or_else(PoisonError::into_inner);
    walked.objects.sort_by(|a, b| a.path.cmp(&b.path).then(b.named.cmp(&a.named)));
    walked.errors.sort_by(|a, b| path_of(a).cmp(path_of(b)));
    drop_repeated(&mut walked.objects);
    walked
}

/// One walk in progress.
struct Walk<'a> {
    options: WalkOptions<'a>,
    walked: Mutex<Walked>,
}

impl Walk<'_> {
    /// A file the user named: whatever is wrong with it is an error.
    fn named(&self, path: &Path) {
        match probe(path, true) {
            Ok(Some(found)) => self.keep(Walked { objects: vec![found], errors: vec![] }),
            Ok(None) => self.fail(vec![HostError::NotAnObject { path: path.to_owned() }]),
            Err(error) => self.fail(vec![error]),
        }
    }

    /// One directory; those in it become tasks of their own.
    fn folder<'s>(&'s self, scope: &Scope<'s>, dir: &Path) {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(source) => return self.fail(vec![read_error(dir, source)]),
        };
        let mut here = Walked::default();
        let mut seen = 0;
        for entry in entries {
            let entry = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
            match entry {
                Err(source) => here.errors.push(read_error(dir, source)),
                Ok((path, kind)) if kind.is_dir() => {
                    scope.spawn(move |scope| self.folder(scope, &path));
                }
                Ok((path, kind)) => {
                    seen += 1;
                    if !kind.is_file() {
                        continue;
                    }
                    match probe(&path, false) {
                        Ok(found) => here.objects.extend(found),
                        Err(error) => here.errors.push(error),
                    }
                }
            }
        }
        if let Some(progress) = self.options.progress {
            progress(seen);
        }
        self.keep(here);
    }

    fn fail(&self, errors: Vec<HostError>) {
        self.keep(Walked { objects: Vec::new(), errors });
    }

    fn keep(&self, here: Walked) {
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        walked.objects.extend(here.objects);
        walked.errors.extend(here.errors);
    }
}

/// Keeps the files named by the user, each path once, and of the others the first
/// path of each file that was not named.
fn drop_repeated(objects: &mut Vec<Found>) {
    let named: FxHashSet<FileId> = objects.iter().filter(|f| f.named).map(|f| f.id).collect();
    let mut paths = FxHashSet::default();
    let mut files = FxHashSet::default();
    objects.retain(|found| {
        if found.named {
            paths.insert(found.path.clone())
        } else {
            !named.contains(&found.id) && files.insert(found.id)
        }
    });
}

/// Looks at the first bytes of a file. One that is swapped for a FIFO or a device
/// meanwhile is neither waited for nor read.
fn probe(path: &Path, named: bool) -> Result<Option<Found>, HostError> {
    if named {
        let kind = path.metadata().map_err(|source| read_error(path, source))?.file_type();
        if is_special(kind) {
            return Err(HostError::NotRegular { path: path.to_owned() });
        }
    }
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if !named {
        flags |= OFlags::NOFOLLOW;
    }
    let file: OwnedFd = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => file,
        // Gone since the folder was read, or a link by now.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) if !named => return Ok(None),
        Err(source) => return Err(read_error(path, source.into())),
    };
    let mut file = File::from(file);
    let mut start = [0; 8];
    let length = read_start(&mut file, &mut start).map_err(|source| read_error(path, source))?;
    let Some(format) = format_of(&start[..length]) else { return Ok(None) };
    let stat = file.metadata().map_err(|source| read_error(path, source))?;
    if !stat.is_file() {
        return Ok(None);
    }
    let id = FileId { dev: stat.dev(), ino: stat.ino() };
    Ok(Some(Found { path: path.to_owned(), format, id, named }))
}

fn is_special(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
}

/// As many of the first bytes as there are.
fn read_start(file: &mut File, start: &mut [u8; 8]) -> io::Result<usize> {
    let mut length = 0;
    while length < start.len() {
        match file.read(&mut start[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The format that the first bytes announce (gABI `EI_MAG0`; Mach-O `MH_MAGIC` and
/// `FAT_MAGIC` of `<mach-o/loader.h>` and `<mach-o/fat.h>`).
fn format_of(start: &[u8]) -> Option<Format> {
    let magic: [u8; 4] = start.get(..4)?.try_into().ok()?;
    match (magic, u32::from_be_bytes(magic)) {
        ([0x7F, b'E', b'L', b'F'], _) => Some(Format::Elf),
        (_, 0xFEED_FACE | 0xFEED_FACF | 0xCEFA_EDFE | 0xCFFA_EDFE) => Some(Format::MachO),
        // A Java class begins with the same four bytes; its version, 45 and up, stands
        // where a universal file has its number of architectures.
        (_, 0xCAFE_BABE | 0xCAFE_BABF) => {
            let count = u32::from_be_bytes(start.get(4..8)?.try_into().ok()?);
            (1..45).contains(&count).then_some(Format::MachO)
        }
        _ => None,
    }
}

fn read_error(path: &Path, source: io::Error) -> HostError {
    HostError::Read { path: path.to_owned(), source }
}

/// What an error of a walk is about.
fn path_of(error: &HostError) -> &Path {
    match error {
        HostError::OpenRoot { path, .. }
        | HostError::NoOpenat2 { path, .. }
        | HostError::Read { path, .. }
        | HostError::NotAnObject { path }
        | HostError::NotRegular { path }
        | HostError::Interpreter { path, .. }
        | HostError::UnknownCpu { path, .. }
        | HostError::UnknownLoader { path } => path,
    }
}

#[cfg(test)]
mod tests;
