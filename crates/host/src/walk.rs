//! Finds the objects in the files and folders that a user names.
//!
//! Folders are walked in parallel. Below a folder, regular files that begin like ELF or Mach-O are
//! found. Symbolic links below a folder are not followed, and of hard links only the first name
//! counts. Unreadable files are reported, and the walk continues.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use becalm_core::fs::{FileId, FileKind};
use rayon::Scope;
use rustc_hash::FxHashSet;
use rustix::fs::{AtFlags, CWD, FileType, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, statfs};
use rustix::io::Errno;

use crate::HostError;
use crate::facts::Facts;
use crate::write::is_leftover;

/// Files that [`WalkOptions::take`] gets at once, at most.
const TAKEN_AT_ONCE: usize = 32;

/// File format according to the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `\x7fELF`.
    Elf,
    /// A Mach-O file, thin or universal.
    MachO,
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path as given, or a path below a folder as given.
    pub path: PathBuf,
    /// The format according to the first bytes; the rest may be malformed.
    pub format: Format,
    /// Device and inode.
    pub id: FileId,
    /// True if the user named the file itself and not a folder above it.
    pub named: bool,
}

/// Takes some files of a walk; called from several threads.
pub type Take<'a> = dyn Fn(&[Found]) + Sync + 'a;

/// Options of a walk.
#[derive(Clone, Copy, Default)]
pub struct WalkOptions<'a> {
    /// Called after each directory with its number of files of any kind, from several threads, for
    /// a progress bar.
    pub progress: Option<&'a (dyn Fn(usize) + Sync)>,
    /// Return every name of a file with several names, not only the first.
    pub every_name: bool,
    /// Return the folders that were listed ([`Walked::folders`]).
    pub folders: bool,
    /// Selects the files below folders to read; without it, all. Called from several threads.
    pub keep: Option<&'a (dyn Fn(&Path) -> bool + Sync)>,
    /// Selects the folders below folders to list; without it, all. Called from several threads.
    pub enter: Option<&'a (dyn Fn(&Path) -> bool + Sync)>,
    /// Takes the files below folders, some at a time, as they are found, from several threads.
    /// Then [`Walked::objects`] has the named files alone, and of a file with several names every
    /// one is found. The memory of the walk does not grow with the number of files.
    pub take: Option<&'a Take<'a>>,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// The files, sorted by path. This includes every file named by the user. If a file was found
    /// under several names below folders, it includes the first name, or all
    /// ([`WalkOptions::every_name`]).
    pub objects: Vec<Found>,
    /// Errors for files that could not be read or that were named and are not objects, sorted by
    /// path.
    pub errors: Vec<HostError>,
    /// The folders that were listed, sorted, if [`WalkOptions::folders`] is set.
    pub folders: Vec<PathBuf>,
    /// Folders with leftovers of a killed writer ([`crate::write::is_leftover`]), which the walk
    /// ignores. Sorted, each once.
    pub littered: Vec<PathBuf>,
}

/// Finds the ELF and Mach-O files among `paths` and below the folders among them. Symbolic links
/// among `paths` are followed. `/proc` and `/sys` are not walked from above. The paths are those of
/// this machine (see [`crate::OsFs::host_path`]).
#[must_use]
pub fn find_objects(paths: &[PathBuf], options: WalkOptions<'_>) -> Walked {
    let walk = Walk { options, walked: Mutex::default() };
    rayon::scope(|scope| {
        for path in paths {
            match path.metadata() {
                Err(source) => walk.fail(vec![read_error(path, source)]),
                Ok(found) if found.is_dir() => {
                    let walk = &walk;
                    scope.spawn(move |scope| walk.folder(scope, path, true));
                }
                Ok(_) => walk.named(path),
            }
        }
    });
    let mut walked = walk.walked.into_inner().unwrap_or_else(PoisonError::into_inner);
    walked.objects.sort_by(|a, b| a.path.cmp(&b.path).then(b.named.cmp(&a.named)));
    walked.errors.sort_by(|a, b| a.path().cmp(b.path()));
    walked.folders.sort();
    walked.littered.sort();
    walked.littered.dedup();
    if !options.every_name {
        drop_repeated(&mut walked.objects);
    }
    walked
}

/// A walk in progress.
struct Walk<'a> {
    options: WalkOptions<'a>,
    walked: Mutex<Walked>,
}

impl Walk<'_> {
    /// Checks a file that the user named; any problem with it is an error.
    fn named(&self, path: &Path) {
        match probe_named(path) {
            Ok(found) => self.keep(Walked { objects: vec![found], ..Walked::default() }),
            Err(error) => self.fail(vec![error]),
        }
    }

    /// Lists one directory. Its subdirectories become tasks of their own.
    fn folder<'s>(&'s self, scope: &Scope<'s>, path: &Path, named: bool) {
        let mut here = Walked::default();
        let entries = match path.read_dir() {
            Ok(entries) if named || !is_of_kernel(path) => entries,
            Ok(_) => return,
            Err(source) => {
                here.fail(path, source);
                return self.keep(here);
            }
        };
        if self.options.folders {
            here.folders.push(path.to_owned());
        }
        let mut seen = 0;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(source) => {
                    here.fail(path, source);
                    break;
                }
            };
            if is_leftover(&entry.file_name()) {
                here.littered.push(path.to_owned());
                continue;
            }
            let below = entry.path();
            match entry.file_type() {
                Err(source) => here.fail(&below, source),
                Ok(kind) if kind.is_dir() => {
                    if self.options.enter.is_none_or(|enter| enter(&below)) {
                        scope.spawn(move |scope| self.folder(scope, &below, false));
                    }
                }
                Ok(kind) => {
                    seen += 1;
                    if kind.is_file() && self.options.keep.is_none_or(|keep| keep(&below)) {
                        here.probe(below);
                    }
                }
            }
        }
        if let Some(progress) = self.options.progress {
            progress(seen);
        }
        if let Some(take) = self.options.take {
            // A task of its own for each part, so that one large folder keeps all threads busy.
            // The tasks that were added last run first: before other folders are listed.
            for part in std::mem::take(&mut here.objects).chunks(TAKEN_AT_ONCE) {
                let part = part.to_vec();
                scope.spawn(move |_| take(&part));
            }
        }
        self.keep(here);
    }

    fn fail(&self, errors: Vec<HostError>) {
        self.keep(Walked { errors, ..Walked::default() });
    }

    fn keep(&self, here: Walked) {
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        walked.objects.extend(here.objects);
        walked.errors.extend(here.errors);
        walked.folders.extend(here.folders);
        walked.littered.extend(here.littered);
    }
}

/// Keeps each path of the files that the user named, and the first path of each other file.
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

impl Walked {
    /// Adds an error, unless another process has removed the file since it was listed.
    fn fail(&mut self, path: &Path, source: io::Error) {
        if source.kind() != io::ErrorKind::NotFound {
            self.errors.push(read_error(path, source));
        }
    }

    /// Adds a file below a folder if it is an object.
    fn probe(&mut self, path: PathBuf) {
        let looked = match open(&path, OFlags::NOFOLLOW) {
            // A link has replaced the file since the folder was read.
            Err(Errno::LOOP) => return,
            file => file.map_err(io::Error::from).and_then(look_at),
        };
        match looked {
            Ok(None) => {}
            Ok(Some((format, id))) => self.objects.push(Found { path, format, id, named: false }),
            Err(source) => self.fail(&path, source),
        }
    }
}

/// True for a directory whose files the kernel makes up. `/proc/PID/root` would lead to other trees again.
fn is_of_kernel(dir: &Path) -> bool {
    const SYSFS_MAGIC: FsWord = 0x6265_6572;
    statfs(dir).is_ok_and(|found| [PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&found.f_type))
}

/// Checks a file that the user named, following symbolic links.
fn probe_named(path: &Path) -> Result<Found, HostError> {
    let fail = |errno: Errno| read_error(path, errno);
    // Checked before the open, because opening a device can have side effects.
    if Facts::at(CWD, path, AtFlags::empty()).map_err(fail)?.kind() == FileKind::Other {
        return Err(HostError::unusable(path, "not a regular file"));
    }
    let file = open(path, OFlags::empty()).map_err(fail)?;
    let looked = look_at(file).map_err(|source| read_error(path, source))?;
    let other = || HostError::unusable(path, "neither an ELF nor a Mach-O file");
    let (format, id) = looked.ok_or_else(other)?;
    Ok(Found { path: path.to_owned(), format, id, named: true })
}

/// Opens for reading. If the file has been replaced by a FIFO or a device, the open neither waits
/// nor acquires a terminal.
fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// Returns the format of an open file and its identity, if it is a regular file.
fn look_at(file: OwnedFd) -> io::Result<Option<(Format, FileId)>> {
    let file = File::from(file);
    let mut start = Vec::new();
    (&file).take(8).read_to_end(&mut start)?;
    let Some(format) = format_of(&start) else { return Ok(None) };
    // Most files have another format, so only objects need this call.
    let facts = Facts::of(&file)?;
    let is_regular = facts.file_type == FileType::RegularFile;
    Ok(is_regular.then_some((format, facts.fingerprint.id)))
}

/// Returns the format of a file with these first bytes (gABI `EI_MAG0`; Mach-O `MH_MAGIC` and
/// `FAT_MAGIC` of `<mach-o/loader.h>` and `<mach-o/fat.h>`).
fn format_of(start: &[u8]) -> Option<Format> {
    let magic: [u8; 4] = start.get(..4)?.try_into().ok()?;
    match (magic, u32::from_be_bytes(magic)) {
        ([0x7F, b'E', b'L', b'F'], _) => Some(Format::Elf),
        (_, 0xFEED_FACE | 0xFEED_FACF | 0xCEFA_EDFE | 0xCFFA_EDFE) => Some(Format::MachO),
        // A Java class begins with the same four bytes. Its version, 45 or more, is in the place of
        // a universal file's number of architectures.
        (_, 0xCAFE_BABE | 0xCAFE_BABF) => {
            let count = u32::from_be_bytes(start.get(4..8)?.try_into().ok()?);
            (1..45).contains(&count).then_some(Format::MachO)
        }
        _ => None,
    }
}

fn read_error(path: &Path, source: impl Into<io::Error>) -> HostError {
    HostError::Read { path: path.to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests;
