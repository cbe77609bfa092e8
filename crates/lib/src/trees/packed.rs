//! Records of a pack with the state of each path: for starts that do not look at the tree. Programs are told
//! what was there when the pack was made.
//!
//! The directories are made again in a folder of this machine, with the same names: links to the copies, and
//! to the tree for what is not in the pack. Programs list these directories.
//!
//! If all files and directories of a pack are in the tree as they were packed, the loader may map libraries from the
//! folder of the pack: whatever it finds beside them there is as in the tree, and so is what it does not find.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use becalm_host::detached::detached;
use becalm_host::local_socket;
use becalm_host::tree::look::{self, Changes, Identity, Numbers};
use becalm_host::tree::table::{self, Found, Sizes, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::index::places::{cache_writer as writer, is_noexec};
use crate::records::Place;
use crate::trees::check::Paths;
use crate::trees::counts::Counter;
use crate::trees::packed_index::{self, Places, Written};
use crate::trees::record::{self, Copied, Header, Kind, Record, RecordedPath};
use crate::trees::{complete, copies, folder, in_parallel, kind_of, times_count};

/// The folder of the packs that were unpacked.
const FOLDER: &str = "packed";
/// The folder of a pack's directories.
const FILES: &str = "files";
/// A pack that no start has used for so long is removed when another one is unpacked.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);
/// The time after which one more use is recorded.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The longest wait for a tree.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the files of a pack are compared with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Check {
    /// In each start
    Start,
    /// In the first start on this machine; later starts get its results, until no program has run for ten
    /// minutes
    Node,
    /// Never: programs are told what was there when the pack was made
    Never,
}

/// A pack that was unpacked on this machine, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pack {
    /// The hash of the file's identity.
    pub(super) hash: u64,
    /// When its files are compared with the tree.
    pub check: Check,
}

impl Pack {
    /// Returns the place of a command's record in this pack.
    pub(super) fn place(self, folder: &Path, command: &Path) -> Place {
        record::place(&self.folder(folder), command)
    }

    /// Returns the same in the folder of this machine.
    fn place_here(self, command: &Path) -> Option<Place> {
        Some(self.place(&folder::existing()?, &std::path::absolute(command).ok()?))
    }

    fn folder(self, folder: &Path) -> PathBuf {
        folder.join(FOLDER).join(format!("{:016x}", self.hash))
    }

    /// True if the pack is in this folder. Records that it is used.
    pub(super) fn is_in(self, folder: &Path) -> bool {
        let place = self.folder(folder);
        let Ok(facts) = place.metadata() else { return false };
        if facts.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > DAY)) {
            let used = File::open(place).map(|it| it.set_modified(SystemTime::now()));
            // If this fails, the pack is only removed sooner.
            drop(used);
        }
        true
    }

    /// Returns the place of a file of the tree.
    pub(super) fn file(self, folder: &Path, path: &str) -> PathBuf {
        in_files(&self.folder(folder), path)
    }

    /// Returns the sizes of a table whose libraries are mapped from their places, which have their paths at the end.
    pub(super) fn sizes(self, folder: &Path, header: &Header) -> Sizes {
        let before = self.file(folder, "").as_os_str().len() as u32 + 1;
        let text = header.text.saturating_mul(2).saturating_add(header.paths * before);
        Sizes { text, ..header.sizes() }
    }

    /// Returns the path in the tree of what is at a path here.
    pub(super) fn original(self, folder: &Path, path: PathBuf) -> PathBuf {
        let rest = path.strip_prefix(self.file(folder, "")).map(|it| Path::new("/").join(it));
        rest.unwrap_or(path)
    }

    /// True if the pack knows this command.
    #[must_use]
    pub fn knows(self, command: &Path) -> bool {
        self.place_here(command).is_some_and(|place| matches!(place.open(), Ok(Some(_))))
    }

    /// Returns a tree of a command that does not answer, if a start would look at it. Another process asks.
    #[must_use]
    pub fn silent_tree(self, command: &Path) -> Option<String> {
        (self.check != Check::Never).then_some(())?;
        let header = Header::at(&self.place_here(command)?)?;
        // If the file of its generation is as it was, a start looks at nothing else.
        let trees = header.generation.map_or(header.trees, |(file, _)| vec![file]);
        let (ours, theirs) = UnixStream::pair().ok()?;
        let begun = detached([&theirs.into()], |[connection]| {
            for tree in &trees {
                // Either may be known to the kernel without a question to the server.
                kind_of(Path::new(tree));
                let _ = statx(CWD, tree.as_str(), AtFlags::STATX_FORCE_SYNC, StatxFlags::MTIME);
                let _ = local_socket::send(&connection, b".", &[]);
            }
        });
        begun.ok()?;
        let ours = OwnedFd::from(ours);
        trees.into_iter().find(|_| local_socket::receive(&ours, 1, PATIENCE).is_none())
    }

    /// True if no file of the pack can be executed, because of a mount option (`noexec`).
    #[must_use]
    pub fn is_noexec(self) -> bool {
        folder::existing().is_some_and(|folder| is_noexec(&folder))
    }

    /// Returns the path at which the program of a command was unpacked, unless it cannot be executed there.
    #[must_use]
    pub fn program(self, command: &Path) -> Option<PathBuf> {
        let command = std::path::absolute(command).ok()?;
        let folder = folder::existing().filter(|folder| !is_noexec(folder))?;
        let place = self.file(&folder, command.to_str()?);
        place.metadata().is_ok_and(|facts| facts.is_file()).then_some(place)
    }

    /// Returns the index that the pack has for a command, if it can be used here and now.
    #[must_use]
    pub fn index(self, command: &Path) -> Option<PathBuf> {
        let place = self.place_here(command).filter(|_| !self.is_noexec())?;
        packed_index::find(&place, self.check == Check::Never)
    }

    /// Returns the use of this pack by a start of a command: without looking at the tree, if the file of its
    /// generation is as it was.
    #[must_use]
    pub fn of_start(self, command: &Path) -> Self {
        let is_same = |(path, of): (String, Identity)| {
            generation(Path::new(&path)).is_ok_and(|now| now == of)
        };
        let generation = || Header::at(&self.place_here(command)?)?.generation;
        let is_never = self.check == Check::Never || generation().is_some_and(is_same);
        if is_never { Self { check: Check::Never, ..self } } else { self }
    }
}

/// Returns the identity of a tree's file of generation.
pub(super) fn generation(path: &Path) -> io::Result<Identity> {
    Ok(Identity::of(&look::at(CWD, path, true)?))
}

/// Writes the records, indexes and directories of a pack, unless they are there.
pub(super) fn write(
    pack: Pack,
    folder: &Path,
    records: &[Record],
    indexes: Vec<Written>,
) -> io::Result<()> {
    let place = pack.folder(folder);
    if place.exists() {
        return Ok(());
    }
    let part = place.with_extension(format!("{}.part", std::process::id()));
    let places = Places::of(records, &place.join(FILES), &part.join(FILES));
    let made = fill(&part, folder, records)
        .and_then(|()| packed_index::write(&part, indexes, &places))
        .and_then(|()| writer().rename(&part, &place).map_err(io::Error::other));
    if made.is_err() {
        let _ = fs::remove_dir_all(&part);
    }
    remove_old(&folder.join(FOLDER));
    made
}

fn fill(part: &Path, folder: &Path, records: &[Record]) -> io::Result<()> {
    folder::make_private(part)?;
    let all = || records.iter().flat_map(|record| &record.paths);
    let listed = all().filter_map(|path| Some((&path.path, path.state.as_ref()?.names.as_ref()?)));
    // Before the links: no name that is made leads through one.
    for path in all().filter(|path| path.state.is_some()) {
        let directory = match path.kind {
            Kind::Directory => Some(path.path.as_str()),
            _ => RecordedPath::split(&path.path).map(|(directory, _)| directory),
        };
        folder::make_private(&in_files(part, directory.unwrap_or_default()))?;
    }
    let known: FxHashSet<&str> = all().map(|it| it.path.as_str()).collect();
    for path in all() {
        let place = in_files(part, &path.path);
        if let Some(target) = path.target.as_ref().filter(|_| path.kind == Kind::Link) {
            // What is packed is found in the folder.
            let up = "../".repeat(path.path.matches('/').count() - 1);
            let inside = target.strip_prefix('/').filter(|_| known.contains(target.as_str()));
            let inside = inside.map(|target| up + target);
            existing(symlink(inside.as_ref().unwrap_or(target), &place))?;
        } else if let Some(copy) = &path.copy {
            let copy = copies::path(folder, &copy.name);
            if path.is_executable() {
                fs::set_permissions(&copy, Permissions::from_mode(0o700))?;
            }
            // Copies with a second name are kept.
            existing(fs::hard_link(copy, &place))?;
        }
    }
    for (path, names) in listed {
        let into = in_files(part, path);
        for name in names.iter().filter(|name| is_plain(name)) {
            existing(symlink(Path::new(path).join(name), into.join(name)))?;
        }
    }
    for record in records {
        let place = record::place(part, Path::new(&record.header.command));
        record.write(&place).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Ignores that there is something already.
fn existing(made: io::Result<()>) -> io::Result<()> {
    folder::unless(io::ErrorKind::AlreadyExists, made)
}

/// Returns the place of a file or directory of the tree.
fn in_files(pack: &Path, path: &str) -> PathBuf {
    pack.join(FILES).join(path.trim_start_matches('/'))
}

/// True for a name in a directory.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Removes packs that no start has used for long.
fn remove_old(packs: &Path) {
    for entry in packs.read_dir().into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|facts| facts.modified());
        if made.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes all packs that were unpacked.
pub(super) fn clear(folder: &Path) -> io::Result<()> {
    folder::unless(io::ErrorKind::NotFound, fs::remove_dir_all(folder.join(FOLDER)))
}

/// A table that programs of a command use, with what they get beside it.
pub(super) struct Shared {
    pub(super) command: PathBuf,
    pub(super) made: Instant,
    /// Counts the programs of a table that no other process attends.
    pub(super) counter: Counter,
    pub(super) file: OwnedFd,
    pub(super) table: Table,
    pub(super) changes: Changes,
    /// The directories of a pack, which programs open and which stay open for them.
    pub(super) directories: Vec<OwnedFd>,
    /// The folder of the pack from which the table was filled, and its inode. No other process attends such a table.
    pub(super) pack: Option<(PathBuf, u64)>,
}

/// Makes the table of a command, of what was in the tree when the pack was made. Returns it with the programs that the
/// command starts; `None` if the pack does not know the command. No path of the tree is looked up.
pub(super) fn tell(pack: Pack, folder: &Path, command: &Path) -> Option<(Shared, Vec<String>)> {
    let mut record = Record::at(&pack.place(folder, command))?;
    if is_noexec(folder) {
        record.paths.iter_mut().filter(|it| it.is_executable()).for_each(|it| it.copy = None);
    }
    let files = pack.folder(folder);
    let mut paths = Paths::of(&record, folder, |_| false);
    paths.is_packed = true;
    paths.map_from(|path| pack.file(folder, path));
    let sizes = pack.sizes(folder, &record.header);
    let file = table::make(sizes, false).ok()?;
    let table = Table::map(&file, sizes).ok()?;
    let changes = Changes::new().ok()?;
    paths.fill(&table).then_some(())?;
    let directories = publish(&record, &table, folder, &files);
    table.attend();
    let inode = files.metadata().ok()?.ino();
    let (command, made) = (command.to_owned(), Instant::now());
    let (counter, pack) = (Counter::new(Some(folder.to_owned())), Some((files, inode)));
    let shared = Shared { command, made, counter, file, table, changes, directories, pack };
    Some((shared, record.header.programs))
}

/// Publishes the states of a record, and opens its directories.
fn publish(record: &Record, table: &Table, folder: &Path, pack: &Path) -> Vec<OwnedFd> {
    let mut directories = Vec::new();
    let known: FxHashSet<&str> = record.paths.iter().map(|it| it.path.as_str()).collect();
    let has = |path: &str, name: &String| known.contains(format!("{path}/{name}").as_str());
    // A directory and the one that is opened instead are the same for programs.
    let mut instead = FxHashMap::default();
    for (at, path) in record.paths.iter().enumerate() {
        let Some(state) = &path.state else { continue };
        let opened = state.names.as_ref().and_then(|_| {
            let directory = look::directory(CWD, &in_files(pack, &path.path)).ok()?;
            Some((look::open_file(directory.as_fd()).ok()?, directory))
        });
        if let Some((facts, directory)) = opened {
            table.hold(at, directory.as_fd());
            if state.names.iter().flatten().all(|name| has(&path.path, name)) {
                table.let_map(at);
            }
            directories.push(directory);
            let original = look::facts(&state.found);
            instead.insert((look::device(&original), original.stx_ino), facts);
        }
    }
    let facts = |numbers: &Numbers| {
        let mut facts = look::facts(numbers);
        if let Some(directory) = instead.get(&(look::device(&facts), facts.stx_ino)) {
            facts.stx_ino = directory.stx_ino;
            facts.stx_dev_major = directory.stx_dev_major;
            facts.stx_dev_minor = directory.stx_dev_minor;
        }
        facts
    };
    for (at, path) in record.paths.iter().enumerate() {
        let found = match &path.state {
            None if path.kind == Kind::Absent => Found::Absent,
            None => continue,
            Some(state) => {
                let is_same = |copy: &&Copied| state.identity() == Some(copy.of);
                let copy = path
                    .copy
                    .as_ref()
                    .filter(is_same)
                    .and_then(|copy| copies::whole(copies::path(folder, &copy.name), &copy.of));
                let followed = state.followed.as_ref().map(&facts);
                Found::There { facts: facts(&state.found), followed, copy }
            }
        };
        table.publish(at, &found, Table::ALWAYS);
    }
    directories
}

/// True if every file that a pack has for a command is in the tree as it was packed, and no directory has other
/// names. From then on each change on this machine is an event.
pub(super) fn is_unchanged(pack: Pack, folder: &Path, command: &Path, changes: &Changes) -> bool {
    let Some(record) = Record::at(&pack.place(folder, command)) else { return false };
    if !record.header.trees.iter().all(|tree| times_count(Path::new(tree))) {
        return false;
    }
    let files = record.paths.iter().filter_map(|it| Some((it, it.copy.as_ref()?.of)));
    let files: Vec<_> = files.collect();
    let above = |path: &Path| path.parent().map(Path::to_owned);
    let parents: BTreeSet<_> =
        files.iter().filter_map(|(it, _)| above(Path::new(&it.path))).collect();
    let links = files.iter().filter(|(it, _)| it.kind == Kind::Link);
    let targets = links.filter_map(|(it, _)| above(&Path::new(&it.path).canonicalize().ok()?));
    let directories: BTreeSet<_> = targets.chain(parents.iter().cloned()).collect();
    let [parents, directories] = [parents, directories].map(Vec::from_iter);
    let names =
        |it: &RecordedPath| Some((PathBuf::from(&it.path), it.state.as_ref()?.names.clone()?));
    let listed: BTreeMap<_, _> = record.paths.iter().filter_map(names).collect();
    let mut holds = in_parallel(&directories, |directory| {
        changes.watch(look::directory(CWD, directory).ok()?.as_fd()).ok()
    });
    // The watches are older than what is compared.
    holds.extend(in_parallel(&parents, |parent| {
        (Some(listed.get(parent)?) == complete::names(parent).as_ref()).then_some(())
    }));
    holds.extend(in_parallel(&files, |(file, of)| is_there(Path::new(&file.path), of, changes)));
    holds.iter().all(Option::is_some) && !changes.happened()
}

/// Looks at a file; `None` if it is another one. One that has several names is watched itself.
fn is_there(path: &Path, identity: &Identity, changes: &Changes) -> Option<()> {
    let mut facts = look::at(CWD, path, true).ok()?;
    if facts.stx_nlink > 1 {
        changes.watch(look::open(CWD, path).ok()?.as_fd()).ok()?;
        facts = look::at(CWD, path, true).ok()?;
    }
    (Identity::of_regular(&facts) == Some(*identity)).then_some(())
}
