//! Records and copies of this machine in one file, and back on another machine: what starts of a command look
//! up and read, so that a first start there is one that has been learned.
//!
//! A pack is a tar file or a squashfs image. It has the files under their own paths, with their times, so that
//! other tools can unpack or mount it, and in `.becalm` a mark and the records. Nothing in a pack counts
//! without the tree: each start compares the files with it, as it does with copies that were made here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::tree::table::MOST_BASES;
use becalm_host::trust;
use rustc_hash::{FxHashMap, FxHasher};
use serde::Serialize;
use tar::{Archive, Builder, Header as Entry};
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;

use crate::index::places::{self, cache_writer as writer};
use crate::json::{Report, lossy_os};
use crate::run::program;
use crate::trees::copies::{self, Making};
use crate::trees::folder::{self, UNPACKED};
use crate::trees::packed::{self, Check, Pack};
use crate::trees::record::{Copied, MOST_BYTES, Place, Record, RecordedPath};
use crate::trees::started::MOST_PROGRAMS;
use crate::trees::state::TreeRecordState;

/// The first file of a pack.
pub(super) const MANIFEST: &str = ".becalm/pack.json";
/// The folder of the records.
pub(super) const RECORDS: &str = ".becalm/records";
/// The content of [`MANIFEST`].
pub(super) const MARK: &[u8] = b"{\"schema\":\"becalm/pack/1\"}\n";
/// First bytes of a squashfs image.
const SQUASHFS: &[u8] = b"hsqs";
/// The longest wait for another process that unpacks the same pack.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The reason why a pack was not made, or not unpacked.
#[derive(Debug, Error)]
pub enum PackError {
    /// Nothing was learned on this machine.
    #[error("nothing was learned here: start programs on network file systems by becalm run first")]
    NothingLearned,
    /// Nothing was learned of this command.
    #[error(
        "{0}: no start of it was learned here on a network file system (becalm cache lists commands)"
    )]
    NotLearned(PathBuf),
    /// There is no folder of records and copies.
    #[error(
        "no folder of this user on a local disk that has room for copies; BECALM_CACHE names one"
    )]
    NoFolder,
    /// The file is no pack.
    #[error("{0}: not a pack of becalm")]
    NotAPack(PathBuf),
    /// Another process unpacks it, and has not ended.
    #[error("{0}: another process has been unpacking it for a minute")]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = .0.display(), error = crate::words::words(.1))]
    Io(PathBuf, io::Error),
}

impl PackError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io(path.to_owned(), error)
    }
}

/// The form of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A tar file.
    Tar,
    /// A squashfs image, made by `sqfstar` of squashfs-tools.
    Squashfs,
}

/// The JSON document of `becalm pack` and `becalm unpack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackReport {
    /// The pack.
    #[serde(serialize_with = "lossy_os")]
    pub file: PathBuf,
    /// The number of files that were packed, or unpacked; those that were there before are not counted.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The records that were packed; those of this machine after unpacking.
    pub records: Vec<TreeRecordState>,
    /// Files that starts look up and that are not in the pack: programs keep them open, the times of their tree
    /// do not count, or they are long.
    pub left_out: Vec<String>,
}

impl Report for PackReport {
    const SCHEMA: &'static str = "becalm/pack/1";
}

/// Writes a pack with what starts of these commands look up and read, and of the programs that they start; of
/// all commands if none is named. `generation` is a file that changes whenever the tree does.
///
/// # Errors
/// Returns an error if no start of a command was learned, or the file cannot be written.
pub fn write(
    to: &Path,
    format: Format,
    commands: &[PathBuf],
    generation: Option<&Path>,
) -> Result<PackReport, PackError> {
    let folder = folder::existing().ok_or(PackError::NothingLearned)?;
    let mut records = chosen(&folder, commands)?;
    let generation = generation.map(|path| {
        let of = packed::generation(path).map_err(PackError::io(path))?;
        let path = std::path::absolute(path).map_err(PackError::io(path))?;
        Ok((path.to_string_lossy().into_owned(), of))
    });
    let generation = generation.transpose()?;
    for record in records.values_mut() {
        packed::complete(record, &folder);
        record.header.generation.clone_from(&generation);
    }
    let is_file =
        |path: &RecordedPath| path.state.as_ref().is_some_and(|it| it.identity().is_some());
    let paths = records.values().flat_map(|record| &record.paths);
    let left_out = paths.filter(|path| is_file(path) && path.copy.is_none());
    let left_out: BTreeSet<String> = left_out.map(|path| path.path.clone()).collect();
    let above = to.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = NamedTempFile::new_in(above).map_err(PackError::io(to))?;
    let packed = match format {
        Format::Tar => archive(part.as_file(), &folder, &records),
        Format::Squashfs => image(part.as_file(), above, &folder, &records),
    };
    let (files, bytes) = packed.map_err(PackError::io(to))?;
    let (file, place) = part.keep().map_err(|error| PackError::Io(to.to_owned(), error.error))?;
    let finish = || -> io::Result<()> {
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.sync_all()?;
        writer().rename(&place, to).map_err(io::Error::other)
    };
    finish().map_err(PackError::io(to))?;
    let records = records.values().map(TreeRecordState::of).collect();
    let left_out = left_out.into_iter().collect();
    Ok(PackReport { file: to.to_owned(), files, bytes, records, left_out })
}

/// Returns the records of commands and of the programs that they start, by name.
fn chosen(folder: &Path, commands: &[PathBuf]) -> Result<BTreeMap<String, Record>, PackError> {
    let read = |place: &Place| place.open().and_then(Record::read);
    let mut records = BTreeMap::new();
    if commands.is_empty() {
        let all = Place::all(folder);
        records.extend(all.iter().filter_map(|it| Some((it.name().to_owned(), read(it)?))));
    }
    let mut left: Vec<(PathBuf, bool)> = commands.iter().map(|it| (it.clone(), true)).collect();
    while let Some((command, is_named)) = left.pop() {
        // A name is looked up in PATH, as becalm run does.
        let found = program::find(command.as_os_str()).map(|found| found.path);
        let path = std::path::absolute(found.unwrap_or_else(|_| command.clone()));
        let path = path.map_err(PackError::io(&command))?;
        let place = Place::of(folder.to_owned(), &path);
        match read(&place) {
            Some(_) if records.contains_key(place.name()) => {}
            Some(record) => {
                let started = record.header.programs.iter();
                left.extend(started.map(|it| (PathBuf::from(it), false)));
                records.insert(place.name().to_owned(), record);
            }
            None if is_named => return Err(PackError::NotLearned(path)),
            None => {}
        }
    }
    match records.values().any(|record| !record.paths.is_empty()) {
        true => Ok(records),
        false => Err(PackError::NothingLearned),
    }
}

/// Writes records and files. The same records and copies make the same bytes.
fn archive(
    to: impl Write,
    folder: &Path,
    records: &BTreeMap<String, Record>,
) -> io::Result<(u64, u64)> {
    let mut archive = Builder::new(to);
    let mut add = |path: &str, size: u64, time: u64, bytes: &mut dyn Read| {
        let mut entry = Entry::new_gnu();
        entry.set_size(size);
        entry.set_mtime(time);
        entry.set_mode(0o644);
        archive.append_data(&mut entry, path, bytes)
    };
    add(MANIFEST, MARK.len() as u64, 0, &mut &MARK[..])?;
    let mut files = BTreeMap::new();
    for (name, record) in records {
        let text = record.text();
        add(&format!("{RECORDS}/{name}"), text.len() as u64, 0, &mut text.as_slice())?;
        files.extend(record.paths.iter().filter_map(|it| Some((&it.path, it.copy.as_ref()?))));
    }
    let (mut count, mut bytes) = (0, 0);
    for (path, copy) in files {
        let identity = copy.identity();
        let Ok(mut file) = File::open(copies::path(folder, &copy.name)) else { continue };
        if file.metadata()?.len() != identity.size {
            continue;
        }
        let time = u64::try_from(identity.modified.0).unwrap_or(0);
        add(path.trim_start_matches('/'), identity.size, time, &mut file)?;
        (count, bytes) = (count + 1, bytes + identity.size);
    }
    archive.into_inner()?.flush()?;
    Ok((count, bytes))
}

/// Writes a squashfs image of the same content.
fn image(
    mut to: &File,
    above: &Path,
    folder: &Path,
    records: &BTreeMap<String, Record>,
) -> io::Result<(u64, u64)> {
    let scratch = tempfile::tempdir_in(above)?;
    let image = scratch.path().join("image");
    let mut tool = Command::new("sqfstar");
    tool.args(["-quiet", "-no-progress", "-comp", "zstd", "-reproducible", "-root-mode", "755"]);
    tool.args(["-mkfs-time", "0"]).arg(&image).stdin(Stdio::piped()).stdout(Stdio::null());
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("sqfstar (squashfs-tools) is not installed"),
        _ => error,
    };
    let mut made = tool.spawn().map_err(missing)?;
    let packed = made.stdin.take().map_or(Ok((0, 0)), |stdin| archive(stdin, folder, records));
    if !made.wait()?.success() {
        return Err(io::Error::other("sqfstar has failed"));
    }
    io::copy(&mut File::open(image)?, &mut to)?;
    packed
}

/// A pack that is read.
enum Source {
    /// A tar file, with place and length of each of its files.
    Tar(File, BTreeMap<Vec<u8>, (u64, u64)>),
    /// The files of an image.
    Folder(TempDir),
}

impl Source {
    /// Opens a pack. An image is unpacked into a scratch folder in `folder`.
    fn open(pack: &Path, folder: &Path) -> Result<Self, PackError> {
        let open = || -> io::Result<Self> {
            let (mut file, facts) = program::open(pack)?;
            if !facts.is_file() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut first = Vec::new();
            Read::by_ref(&mut file).take(SQUASHFS.len() as u64).read_to_end(&mut first)?;
            if first == SQUASHFS {
                return Self::of_image(pack, folder);
            }
            file.rewind()?;
            let mut places = BTreeMap::new();
            for entry in Archive::new(&file).entries_with_seek()? {
                let entry = entry?;
                if entry.header().entry_type().is_file() {
                    let place = (entry.raw_file_position(), entry.size());
                    places.insert(entry.path_bytes().into_owned(), place);
                }
            }
            Ok(Self::Tar(file, places))
        };
        let mut source = open().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => PackError::io(pack)(error),
            _ => PackError::NotAPack(pack.to_owned()),
        })?;
        let is_ours = source.read(MANIFEST, 4096).is_some_and(|mark| mark == MARK);
        is_ours.then_some(source).ok_or_else(|| PackError::NotAPack(pack.to_owned()))
    }

    fn of_image(pack: &Path, folder: &Path) -> io::Result<Self> {
        let scratch = tempfile::tempdir_in(folder)?;
        let mut tool = Command::new("unsquashfs");
        tool.args(["-quiet", "-no-progress", "-no-xattrs", "-force", "-dest"]);
        let status = tool.arg(scratch.path()).arg(pack).stdout(Stdio::null()).status()?;
        status.success().then_some(Self::Folder(scratch)).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Returns the names of the records.
    fn records(&self) -> Vec<String> {
        let names: Vec<Vec<u8>> = match self {
            Self::Tar(_, places) => places.keys().cloned().collect(),
            Self::Folder(scratch) => {
                let found = scratch.path().join(RECORDS).read_dir().into_iter().flatten().flatten();
                let path = |it: fs::DirEntry| format!("{RECORDS}/{}", it.file_name().display());
                found.map(|it| path(it).into_bytes()).collect()
            }
        };
        let inside = format!("{RECORDS}/");
        let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
        names.filter(|name| name.starts_with(&inside)).collect()
    }

    /// Opens a file with its length.
    fn file(&mut self, path: &str) -> Option<(File, u64)> {
        match self {
            Self::Tar(file, places) => {
                let &(place, length) = places.get(path.as_bytes())?;
                file.seek(SeekFrom::Start(place)).ok()?;
                Some((file.try_clone().ok()?, length))
            }
            Self::Folder(scratch) => {
                // The image is not ours: no link leads out of it.
                let root = scratch.path().canonicalize().ok()?;
                let real =
                    root.join(path).canonicalize().ok().filter(|it| it.starts_with(&root))?;
                let file = File::open(real).ok()?;
                let facts = file.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((file, facts.len()))
            }
        }
    }

    fn read(&mut self, path: &str, most: u64) -> Option<Vec<u8>> {
        let (file, length) = self.file(path).filter(|it| it.1 <= most)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Adds the records and files of a pack to the folder of this machine. What is known already stays; of a file
/// that has two copies, the one of the record that was learned last counts.
///
/// # Errors
/// Returns an error if the file is no pack, or cannot be read.
pub fn unpack(pack: &Path) -> Result<PackReport, PackError> {
    unpack_as(Pack { hash: hash(pack)?, check: Check::Start }, pack)
}

fn unpack_as(unpacked: Pack, pack: &Path) -> Result<PackReport, PackError> {
    let folder = folder::made().ok_or(PackError::NoFolder)?;
    let mut source = Source::open(pack, &folder)?;
    let (file, records, left_out) = (pack.to_owned(), Vec::new(), Vec::new());
    let mut report = PackReport { file, files: 0, bytes: 0, records, left_out };
    let mut told = Vec::new();
    for name in source.records() {
        let record = source.read(&name, MOST_BYTES).and_then(|bytes| Record::parse(&bytes));
        let Some(mut record) = record else { return Err(PackError::NotAPack(pack.to_owned())) };
        let place = Place::of(folder.clone(), Path::new(&record.header.command));
        let (files, bytes) = copy(&mut source, &mut record, &folder);
        record.finish(&folder);
        if record.paths.iter().any(|path| path.state.is_some()) {
            told.push(record.clone());
        }
        // Otherwise this machine learns it now.
        let Some(lock) = place.lock() else { continue };
        record.header.generation = None;
        record.paths.retain(|path| !path.added);
        for path in &mut record.paths {
            path.state = None;
            path.copy = path.copy.take().filter(|_| path.is_used());
        }
        let known = place.open().and_then(Record::read);
        let mut record = known.map_or_else(|| record.clone(), |known| merged(known, &record));
        record.finish(&folder);
        if place.write(&record).is_ok() {
            (report.files, report.bytes) = (report.files + files, report.bytes + bytes);
            report.records.push(TreeRecordState::of(&record));
        }
        place.unlock();
        drop(lock);
    }
    packed::write(unpacked, &folder, &told).map_err(PackError::io(&folder))?;
    Ok(report)
}

/// Returns a hash of the identity of a pack's file.
fn hash(pack: &Path) -> Result<u64, PackError> {
    let facts = pack.metadata().map_err(PackError::io(pack))?;
    let mut hasher = FxHasher::default();
    let times = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
    (facts.ino(), facts.size(), times).hash(&mut hasher);
    Ok(hasher.finish())
}

/// Returns a record with what another one has besides.
fn merged(mut record: Record, other: &Record) -> Record {
    let is_newer = other.header.learned > record.header.learned;
    let by_path = record.paths.iter().enumerate().map(|(at, it)| (it.path.clone(), at));
    let known: FxHashMap<String, usize> = by_path.collect();
    for path in &other.paths {
        match known.get(&path.path).map(|&at| &mut record.paths[at].copy) {
            None => record.paths.push(path.clone()),
            Some(copy) if path.copy.is_some() && (is_newer || copy.is_none()) => {
                copy.clone_from(&path.copy);
            }
            Some(_) => {}
        }
    }
    let add = |to: &mut Vec<String>, more: &[String], most: usize| {
        to.extend(more.iter().filter(|&it| !to.contains(it)).cloned().collect::<Vec<_>>());
        to.truncate(most);
    };
    add(&mut record.watched, &other.watched, usize::MAX);
    add(&mut record.header.trees, &other.header.trees, MOST_BASES);
    add(&mut record.header.programs, &other.header.programs, MOST_PROGRAMS);
    record.header.starts = record.header.starts.max(other.header.starts);
    record
}

/// Makes the copies of a record from the files of a pack. What is missing has no copy. Returns the number of
/// files that are new, and their bytes.
fn copy(source: &mut Source, record: &mut Record, folder: &Path) -> (u64, u64) {
    let Some(mut making) = Making::new(folder) else {
        record.paths.iter_mut().for_each(|it| it.copy = None);
        return (0, 0);
    };
    let (mut files, mut bytes) = (0, 0);
    for path in record.paths.iter_mut().filter(|it| it.copy.is_some()) {
        let Some(identity) = path.copy.as_ref().map(|it| it.identity()) else { continue };
        let original = Path::new(&path.path);
        let before = making.count();
        let made = source.file(path.path.trim_start_matches('/')).and_then(|(mut file, length)| {
            (length == identity.size).then(|| making.add(original, &identity, &mut file))?
        });
        if making.count() > before {
            (files, bytes) = (files + 1, bytes + identity.size);
        }
        // The name says for which file the copy is, whatever the pack calls it.
        path.copy = made.map(|name| Copied::new(name, identity));
    }
    if !making.finish() {
        record.paths.iter_mut().for_each(|it| it.copy = None);
        return (0, 0);
    }
    for path in record.paths.iter_mut().filter(|it| it.mapped) {
        if let Some(copy) = &mut path.copy {
            copy.loads = Some(copies::is_loadable(&copies::path(folder, &copy.name)));
        }
    }
    (files, bytes)
}

/// Unpacks a pack, unless that was done on this machine. Of several processes one does it, and the others wait.
///
/// # Errors
/// Returns an error if it cannot be unpacked.
pub fn ensure(pack: &Path, check: Check) -> Result<Pack, PackError> {
    let folder = folder::made().ok_or(PackError::NoFolder)?;
    let hash = hash(pack)?;
    let unpacked = Pack { hash, check };
    let mark = folder.join(places::cached_name(pack, hash, UNPACKED));
    let lock = mark.with_extension(format!("{UNPACKED}-lock"));
    let is_done = || trust::open(&mark).is_ok();
    let began = Instant::now();
    while !is_done() {
        let locked: Option<OwnedFd> = writer().lock(&lock).map_err(|_| PackError::NoFolder)?;
        if let Some(held) = locked {
            let done = if is_done() { Ok(()) } else { unpack_as(unpacked, pack).map(drop) };
            let done = done.map(|()| drop(writer().replace(&mark, b"", 0o600)));
            let _ = writer().remove(&lock);
            drop(held);
            return done.map(|()| unpacked);
        }
        if began.elapsed() > PATIENCE {
            return Err(PackError::Busy(pack.to_owned()));
        }
        thread::sleep(PAUSE);
    }
    Ok(unpacked)
}
