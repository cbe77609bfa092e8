//! Records of a pack with the state of each path: for starts that do not look at the tree. Programs are told
//! what was there when the pack was made.
//!
//! The directories are made again in a folder of this machine, with the same names: links to the copies, and
//! to the tree for what is not in the pack. Programs list these directories.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use becalm_host::detached::{Detached, Priority, detached};
use becalm_host::local_socket;
use becalm_host::tree::look::{self, Changes, Facts, Identity, Numbers};
use becalm_host::tree::table::{self, Found, Sizes, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::CWD;

use crate::index::places::cache_writer as writer;
use crate::run::making::files_of_start;
use crate::run::program::{self, Program};
use crate::trees::check::Paths;
use crate::trees::packed_index::{self, Written};
use crate::trees::record::{
    Copied, Header, IdentityNumbers, Kind, PathState, Place, Record, RecordedPath,
};
use crate::trees::{c_path, copies, folder, in_parallel, kind_of, learn};

/// The folder of the packs that were unpacked.
const FOLDER: &str = "packed";
/// The folder of a pack's directories.
const FILES: &str = "files";
/// The age at which a pack that was unpacked is removed, when another one is.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest wait for a tree.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the files of a pack are compared with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// In each start.
    Start,
    /// In the first start on a machine; later ones get its results.
    Node,
    /// Never.
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
        Place::of(self.folder(folder), command)
    }

    fn folder(self, folder: &Path) -> PathBuf {
        folder.join(FOLDER).join(format!("{:016x}", self.hash))
    }

    /// Returns the record of a command.
    pub(super) fn record(self, folder: &Path, command: &Path) -> Option<Record> {
        Record::read(self.place(folder, command).open()?)
    }

    /// Returns the place of a file of the tree.
    pub(super) fn file(self, folder: &Path, path: &str) -> PathBuf {
        in_files(&self.folder(folder), path)
    }

    /// True if the pack knows this command.
    #[must_use]
    pub fn knows(self, command: &Path) -> bool {
        let path = std::path::absolute(command).ok();
        let place = folder::existing().zip(path).map(|(folder, path)| self.place(&folder, &path));
        place.is_some_and(|place| place.open().is_some())
    }

    /// Returns a tree of a command that does not answer, if a start would look at it. Another process asks.
    #[must_use]
    pub fn silent_tree(self, command: &Path) -> Option<String> {
        (self.check != Check::Never).then_some(())?;
        let place = self.place(&folder::existing()?, &std::path::absolute(command).ok()?);
        let trees = Header::read(&mut place.open()?)?.trees;
        let (ours, theirs) = UnixStream::pair().ok()?;
        let begun = detached(theirs.into(), Priority::Normal, |connection| {
            for tree in &trees {
                kind_of(Path::new(tree));
                let _ = local_socket::send(&connection, b".", &[]);
            }
        });
        matches!(begun, Ok(Detached::Yes)).then_some(())?;
        let ours = OwnedFd::from(ours);
        trees.into_iter().find(|_| local_socket::receive(&ours, 1, PATIENCE).is_none())
    }

    /// Returns the path at which the program of a command was unpacked.
    #[must_use]
    pub fn program(self, command: &Path) -> Option<PathBuf> {
        let command = std::path::absolute(command).ok()?;
        let folder = self.folder(&folder::existing()?);
        let place = in_files(&folder, command.to_str()?);
        place.metadata().is_ok_and(|facts| facts.is_file()).then_some(place)
    }

    /// Returns the index that the pack has for a command, if it can be used here and now.
    #[must_use]
    pub fn index(self, command: &Path) -> Option<PathBuf> {
        let place = self.place(&folder::existing()?, &std::path::absolute(command).ok()?);
        packed_index::find(&place.folder, &place)
    }

    /// Returns the use of this pack by a command with this header: without looking at the tree, if the file
    /// of its generation is as it was. `None` if the pack does not know the command.
    pub(super) fn used_by(self, header: Option<&Header>) -> Option<Self> {
        match (self.check, header) {
            (Check::Never, None) => None,
            (Check::Never, Some(_)) => Some(self),
            (_, Some(Header { generation: Some((path, of)), .. }))
                if generation(Path::new(path)).is_ok_and(|now| now == *of) =>
            {
                Some(Self { check: Check::Never, ..self })
            }
            _ => Some(self),
        }
    }
}

/// Returns the identity of a tree's file of generation.
pub(super) fn generation(path: &Path) -> io::Result<IdentityNumbers> {
    let c_path = c_path(path).ok_or(io::ErrorKind::InvalidInput)?;
    let Identity { inode, size, modified, changed } = Identity::of(&look::at(CWD, &c_path, true)?);
    Ok((inode, size, modified, changed))
}

/// Adds to a record the files of the command itself and what is in the tree now, and makes the copies that are
/// missing.
pub(super) fn complete(record: &mut Record, folder: &Path) {
    // Packs should be the same each time.
    let learned = record.header.learned;
    add_program(record);
    add_directories(record);
    record.finish(folder);
    if add_states(record, folder).is_some() {
        add_copies(record, folder);
        record.finish(folder);
    }
    record.header.learned = learned;
}

/// Makes the copies that are missing, and drops those of other contents.
fn add_copies(record: &mut Record, folder: &Path) {
    let identities: Vec<Option<Identity>> =
        record.paths.iter().map(|path| path.state.as_ref()?.identity()).collect();
    learn::copy_all(record, folder, &identities);
    for (path, identity) in record.paths.iter_mut().zip(identities) {
        let is_same = |copy: &Copied| identity.is_none_or(|it| it == copy.identity());
        path.copy = path.copy.take().filter(is_same);
    }
}

/// Adds the program of a command and the libraries of its start, as far as they are in its trees.
fn add_program(record: &mut Record) {
    let command = PathBuf::from(&record.header.command);
    let program = program::find(command.as_os_str()).and_then(Program::look);
    let libraries = program.and_then(|program| files_of_start(&program)).unwrap_or_default();
    let mut files: Vec<RecordedPath> = Vec::new();
    for (at, path) in [command].into_iter().chain(libraries).enumerate() {
        let target = path.read_link().ok().and_then(|it| it.to_str().map(ToOwned::to_owned));
        let Some(path) = path.to_str().map(ToOwned::to_owned) else { continue };
        let is_inside = record.header.trees.iter().any(|tree| Path::new(&path).starts_with(tree))
            && Path::new(&path).symlink_metadata().is_ok();
        if is_inside && RecordedPath::split(&path).is_some() {
            // The command, and the program if the command is a link.
            let (read, mapped) = (at <= 1, at > 1);
            let added = true;
            files.push(RecordedPath { path, target, read, mapped, added, ..Default::default() });
        }
    }
    for file in files {
        match record.paths.iter_mut().find(|known| known.path == file.path) {
            Some(known) => {
                known.read |= file.read;
                known.mapped |= file.mapped;
            }
            None => record.paths.push(file),
        }
    }
}

/// Adds the trees and the directories on the way to each path.
fn add_directories(record: &mut Record) {
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    let trees = record.header.trees.clone();
    let paths: Vec<String> = record.paths.iter().map(|it| it.path.clone()).chain(trees).collect();
    let is_inside = |it: &Path| record.header.trees.iter().any(|tree| it.starts_with(tree));
    for path in &paths {
        for above in Path::new(path).ancestors().take_while(|it| is_inside(it)) {
            let Some(path) = above.to_str().filter(|it| RecordedPath::split(it).is_some()) else {
                continue;
            };
            if !known.insert(path.to_owned()) {
                continue;
            }
            // Otherwise it would not be watched while the states are looked up.
            let (path, kind) = (path.to_owned(), Kind::Directory);
            record.paths.push(RecordedPath { path, kind, added: true, ..Default::default() });
        }
    }
}

/// Looks at all paths of a record, and adds their states.
fn add_states(record: &mut Record, folder: &Path) -> Option<()> {
    let sizes = record.header.sizes();
    let table = Table::map(table::make(sizes, false).ok()?, sizes).ok()?;
    let changes = Changes::new().ok()?;
    let paths = Paths::anywhere(record, folder);
    paths.fill(&table).then_some(())?;
    paths.look(&table, &changes, true);
    let found = paths.looked(&table).found;
    let trees = record.header.trees.clone();
    for (path, mut found) in record.paths.iter_mut().zip(found) {
        if trees.contains(&path.path) {
            let facts = c_path(Path::new(&path.path)).and_then(|it| look::at(CWD, &it, false).ok());
            let there = |facts| Found::There { facts, followed: None, copy: None };
            found = facts.map_or(Found::Unknown, there);
        }
        let Found::There { facts, followed, .. } = found else {
            let is_absent = matches!(found, Found::Absent);
            path.kind = if is_absent { Kind::Absent } else { Kind::Other };
            continue;
        };
        path.kind = Kind::of(&facts);
        let (found, followed) = (state(facts), followed.map(state));
        path.state = Some(PathState { found, followed, names: None });
    }
    add_names(record);
    Some(())
}

/// Adds the names in the directories. Each listing waits for the file system.
fn add_names(record: &mut Record) {
    let directories: Vec<usize> =
        (0..record.paths.len()).filter(|&at| record.paths[at].kind == Kind::Directory).collect();
    let listed: Vec<OnceLock<Option<Vec<String>>>> =
        directories.iter().map(|_| OnceLock::new()).collect();
    in_parallel(directories.len(), |at| {
        let _ = listed[at].set(names(Path::new(&record.paths[directories[at]].path)));
    });
    for (at, names) in directories.into_iter().zip(listed) {
        if let Some(state) = &mut record.paths[at].state {
            state.names = names.into_inner().flatten();
        }
    }
}

/// Returns the numbers of a state. Reading a file changes its atime, and packs should be the same each time.
fn state(mut facts: Facts) -> Numbers {
    facts.stx_atime = facts.stx_mtime;
    look::numbers(&facts)
}

/// Returns the names in a directory; `None` if it cannot be listed, or one is not UTF-8.
pub(super) fn names(directory: &Path) -> Option<Vec<String>> {
    let entries = directory.read_dir().ok()?;
    let names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names = names.collect::<Option<Vec<String>>>()?;
    names.sort();
    Some(names)
}

/// Writes the records, indexes and directories of a pack, unless they are there.
pub(super) fn write(
    pack: Pack,
    folder: &Path,
    records: &[Record],
    indexes: &[Written],
) -> io::Result<()> {
    let place = pack.folder(folder);
    if place.exists() {
        return Ok(());
    }
    let part = place.with_extension(format!("{}.part", std::process::id()));
    let made = fill(&part, folder, records)
        .and_then(|()| packed_index::write(&part, indexes))
        .and_then(|()| writer().rename(&part, &place).map_err(io::Error::other));
    if made.is_err() {
        let _ = fs::remove_dir_all(&part);
    }
    remove_old(&folder.join(FOLDER));
    made
}

fn fill(part: &Path, folder: &Path, records: &[Record]) -> io::Result<()> {
    let make = |path: &Path| DirBuilder::new().mode(0o700).recursive(true).create(path);
    make(part)?;
    let all = || records.iter().flat_map(|record| &record.paths);
    let copy = |path: &RecordedPath| {
        Some((path.path.clone(), copies::path(folder, &path.copy.as_ref()?.name)))
    };
    let copied: FxHashMap<String, PathBuf> = all().filter_map(copy).collect();
    let listed =
        || all().filter_map(|path| Some((&path.path, path.state.as_ref()?.names.as_ref()?)));
    // Before the links: no name that is made leads through one.
    for path in all().filter(|path| path.state.is_some()) {
        let directory = match path.kind {
            Kind::Directory => Some(path.path.as_str()),
            _ => RecordedPath::split(&path.path).map(|(directory, _)| directory),
        };
        make(&in_files(part, directory.unwrap_or_default()))?;
    }
    for path in all() {
        let place = in_files(part, &path.path);
        match (&path.target, copied.get(&path.path)) {
            (Some(target), _) if path.kind == Kind::Link => new_link(Path::new(target), &place)?,
            // Copies with a second name are kept.
            (_, Some(copy)) => {
                if path.is_executable() {
                    fs::set_permissions(copy, Permissions::from_mode(0o700))?;
                }
                existing(fs::hard_link(copy, &place))?;
            }
            (_, None) => {}
        }
    }
    for (path, names) in listed() {
        let into = in_files(part, path);
        for name in names.iter().filter(|name| is_plain(name)) {
            new_link(&Path::new(path).join(name), &into.join(name))?;
        }
    }
    for record in records {
        let place = Place::of(part.to_owned(), Path::new(&record.header.command));
        place.write(record).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Makes a link, unless there is something at the place.
fn new_link(target: &Path, place: &Path) -> io::Result<()> {
    existing(symlink(target, place))
}

/// Ignores that there is something already.
fn existing(made: io::Result<()>) -> io::Result<()> {
    made.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    })
}

/// Returns the place of a file or directory of the tree.
fn in_files(pack: &Path, path: &str) -> PathBuf {
    pack.join(FILES).join(path.trim_start_matches('/'))
}

/// True for a name in a directory.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Removes packs that were unpacked long ago.
fn remove_old(packs: &Path) {
    for entry in packs.read_dir().into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|facts| facts.modified());
        let is_old = made.ok().and_then(|time| time.elapsed().ok()).is_some_and(|age| age > OLD);
        if is_old {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes all packs that were unpacked.
pub(super) fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder.join(FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A table of what was in the tree when the pack was made.
pub(super) struct Told {
    pub(super) file: OwnedFd,
    pub(super) table: Table,
    pub(super) changes: Changes,
    /// The directories that programs list, open.
    pub(super) directories: Vec<OwnedFd>,
    /// The programs that the command starts.
    pub(super) programs: Vec<String>,
    /// The folder of the pack.
    pub(super) folder: Unpacked,
}

/// The folder of a pack that was unpacked, which may be removed.
pub(super) struct Unpacked(PathBuf, u64);

impl Unpacked {
    fn of(folder: PathBuf) -> Option<Self> {
        let inode = folder.metadata().ok()?.ino();
        Some(Self(folder, inode))
    }

    /// True if it is there.
    pub(super) fn is_there(&self) -> bool {
        self.0.metadata().is_ok_and(|facts| facts.ino() == self.1)
    }
}

/// Makes the table of a command; `None` if the pack does not know the command. No path of the tree is looked
/// up.
pub(super) fn tell(pack: Pack, folder: &Path, command: &Path) -> Option<Told> {
    let record = pack.record(folder, command)?;
    let files = pack.folder(folder);
    let (trees, entries) = Paths::packed(&record, folder, |path| pack.file(folder, path)).entries();
    let sizes = Sizes::of(&trees, &entries);
    let file = table::make(sizes, false).ok()?;
    let table = Table::map(&file, sizes).ok()?;
    let changes = Changes::new().ok()?;
    table.fill(&trees, &entries).then_some(())?;
    let directories = publish(&record, &table, folder, &files);
    table.attend();
    let folder = Unpacked::of(files)?;
    Some(Told { file, table, changes, directories, programs: record.header.programs, folder })
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
                table.set_complete(at);
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
                let is_same = |copy: &&Copied| state.identity() == Some(copy.identity());
                let copy = path.copy.as_ref().filter(is_same).and_then(|copy| {
                    copies::whole(&c_path(&copies::path(folder, &copy.name))?, &copy.identity())
                });
                let followed = state.followed.as_ref().map(&facts);
                Found::There { facts: facts(&state.found), followed, copy }
            }
        };
        table.publish(at, &found, Table::ALWAYS);
    }
    directories
}
