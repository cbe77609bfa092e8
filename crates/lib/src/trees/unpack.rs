//! Packs on a machine that starts with them: they are unpacked into its folder of records and copies once.

use std::hash::BuildHasher;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use becalm_host::tree::table::MOST_BASES;
use becalm_host::trust;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::records::Lock;
use crate::trees::copies::Making;
use crate::trees::pack::{INDEXES, PackReport, RECORDS, links_alone, no_folder};
use crate::trees::packed::{self, Check, Pack};
use crate::trees::record::{Adding, Copied, Kind, MOST_BYTES, Record, RecordedPath, place};
use crate::trees::source::{Source, not_a_pack, of_file};
use crate::trees::started::MOST_PROGRAMS;
use crate::trees::state::TreeRecordState;
use crate::trees::{door, folder, learn, packed_index};

/// Maximum length of the table of an index.
const MOST_OF_INDEX: u64 = 256 << 20;
/// The longest wait for another process that unpacks the same pack.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Adds the records and files of a pack to the folder of this machine. What is known already stays; of a file
/// that has two copies, the one of the record that was learned last counts.
///
/// # Errors
/// Returns an error if the file is no pack, or cannot be read.
pub fn unpack(pack: &Path) -> Result<PackReport> {
    unpack_as(Pack { hash: hash(pack)?, check: Check::Start }, pack)
}

fn unpack_as(unpacked: Pack, pack: &Path) -> Result<PackReport> {
    let folder = folder::made().ok_or_else(no_folder)?;
    let mut source = Source::open(pack, &folder, None)?;
    let mut report = PackReport { file: pack.to_owned(), ..PackReport::default() };
    let mut told = Vec::new();
    for name in source.names(RECORDS) {
        let record = source.read(&name, MOST_BYTES).and_then(|bytes| Record::parse(&bytes));
        let Some(mut record) = record else { return Err(not_a_pack(pack)) };
        let place = place(&folder, Path::new(&record.header.command));
        let copied = copy(&mut source, &mut record, &folder);
        let (files, bytes) = copied.ok_or_else(|| {
            let (pack, folder) = (pack.display(), folder.display());
            anyhow!("{pack}: it is truncated, or {folder} has no room for it")
        })?;
        record.finish(&folder);
        let state = TreeRecordState::of(&record);
        if record.paths.iter().any(|path| path.state.is_some()) {
            told.push(record.clone());
        }
        // Otherwise this machine learns it now.
        let Ok(Some(_lock)) = place.lock() else { continue };
        record.header.generation = None;
        record.paths.retain(|path| !path.added);
        for path in &mut record.paths {
            path.state = None;
            path.copy = path.copy.take().filter(|_| path.is_used());
        }
        let mut record =
            Record::at(&place).map_or_else(|| record.clone(), |known| merged(known, &record));
        record.finish(&folder);
        if record.write(&place).is_ok() {
            (report.files, report.bytes) = (report.files + files, report.bytes + bytes);
            report.records.push(state);
        }
    }
    let indexes = indexes(&mut source, &told);
    report.indexes = indexes.len() as u64;
    packed::write(unpacked, &folder, &told, indexes).map_err(of_file(&folder))?;
    Ok(report)
}

/// Returns the indexes of a pack that are of this version and for the libraries of this machine, by name.
fn indexes(source: &mut Source, records: &[Record]) -> Vec<packed_index::Written> {
    let trees: Vec<&Path> = records.iter().flat_map(|it| &it.header.trees).map(Path::new).collect();
    let names = source.names(INDEXES);
    let read = |name: String| {
        let own = name.rsplit_once('/')?.1.to_owned();
        packed_index::around(own, &source.read(&name, MOST_OF_INDEX)?, &trees)
    };
    names.into_iter().filter_map(read).collect()
}

/// Returns a hash of the identity of a pack's file.
fn hash(pack: &Path) -> Result<u64> {
    let facts = pack.metadata().map_err(of_file(pack))?;
    let times = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
    Ok(FxBuildHasher.hash_one((facts.ino(), facts.size(), times)))
}

/// Returns a record with what another one has besides.
fn merged(mut record: Record, other: &Record) -> Record {
    let is_newer = other.header.learned > record.header.learned;
    let mut adding = Adding::to(&mut record);
    for path in &other.paths {
        if let Some(known) = adding.add(path.clone())
            && path.copy.is_some()
            && (is_newer || known.copy.is_none())
        {
            known.copy.clone_from(&path.copy);
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
    record.header.learned = record.header.learned.max(other.header.learned);
    record
}

/// Makes the copies of a record from the files of a pack. What is missing has no copy. Returns the number of
/// files that are new, and their bytes; `None` if there is no room, so that a later start tries again.
fn copy(source: &mut Source, record: &mut Record, folder: &Path) -> Option<(u64, u64)> {
    let mut making = Making::of_pack(folder)?;
    let of = |path: &RecordedPath| Some(path.copy.as_ref()?.of);
    let alone: FxHashSet<&str> = links_alone(record).collect();
    let is_whole = |it: &&RecordedPath| it.kind != Kind::Link || alone.contains(it.path.as_str());
    let files = record.paths.iter().filter(is_whole);
    let files = files.filter_map(|path| Some((Path::new(&path.path), of(path)?)));
    making.fits(files).then_some(())?;
    let (room, mut is_whole) = (making.room, true);
    let mut linked = FxHashMap::default();
    let (links, others): (Vec<_>, Vec<_>) =
        record.paths.iter_mut().partition(|it| it.kind == Kind::Link);
    for path in others.into_iter().chain(links).filter(|it| it.copy.is_some()) {
        let Some(copied) = &path.copy else { continue };
        let identity = copied.of;
        if let Some(copy) = linked.get(&copied.of).filter(|_| path.kind == Kind::Link) {
            path.copy = Some(Copied::clone(copy));
            continue;
        }
        let original = Path::new(&path.path);
        let file = source.file(path.path.trim_start_matches('/'));
        let made = file.filter(|(_, length)| *length == identity.size).map(|(mut file, _)| {
            let made = making.add(original, &identity, &mut file);
            is_whole &= made.is_some();
            made
        });
        // The name says for which file the copy is, whatever the pack calls it.
        path.copy = made.flatten().map(|name| Copied { name, of: identity, loads: None });
        linked.extend(path.copy.clone().map(|copy| (copy.of, copy)));
    }
    (making.finish() && is_whole).then_some(())?;
    learn::mark_loadable(record, folder);
    Some((making.made.len() as u64, room - making.room))
}

/// Unpacks a pack, unless that was done on this machine. Of several processes one does it, and the others wait.
///
/// # Errors
/// Returns an error if it cannot be unpacked.
pub fn ensure(pack: &Path, check: Check) -> Result<Pack> {
    if door::is_unknown_user() {
        bail!("user {} gets no answers: other users may have this number", trust::user());
    }
    let folder = folder::made().ok_or_else(no_folder)?;
    let unpacked = Pack { hash: hash(pack)?, check };
    let lock = folder.join(format!("{:016x}.pack-lock", unpacked.hash));
    let is_done = || unpacked.is_in(&folder);
    let began = Instant::now();
    while !is_done() {
        if let Some(_held) = Lock::take(lock.clone()).map_err(|_| no_folder())? {
            let done = if is_done() { Ok(()) } else { unpack_as(unpacked, pack).map(drop) };
            return done.map(|()| unpacked);
        }
        if began.elapsed() > PATIENCE {
            bail!("{}: another process has been unpacking it for a minute", pack.display());
        }
        thread::sleep(PAUSE);
    }
    Ok(unpacked)
}
