//! The process of a user that gives tables to the programs of `becalm run`, and to the programs that those
//! start: one for each view of the files and each set of rights. Programs of one command that are started together share a table.

use std::env;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use becalm_host::detached::detached;
use becalm_host::local_socket::{self, SocketType};
use becalm_host::tree::look::{self, Changes};
use becalm_host::tree::table::{self, Table};
use becalm_host::trust;
use becalm_host::write::raised_limit;
use rustc_hash::FxHasher;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::trees::attend::Attended;
use crate::trees::counts::{Counter, Counts};
use crate::trees::packed::{self, Check, Pack, Shared};
use crate::trees::record::{Header, place};
use crate::trees::{TRUST_TIMES, folder, is_running};

/// The longest time to wait for a table, for one whose results count for later starts, and for one that is filled from
/// a pack before it is given.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_FOR_NODE: Duration = Duration::from_secs(1);
const PATIENCE_FOR_PACK: Duration = Duration::from_secs(5);
/// How often a start asks for such a table.
const ATTEMPTS: u32 = 5;
/// The longest time for a process that has connected to send its path.
const PATIENCE_OF_DOOR: Duration = Duration::from_millis(10);
/// Maximum number of tables at a time: each takes one of the user's 128 inotify descriptors.
const MOST_TABLES: usize = 32;
/// The age at which a table is not shared any more.
const OLD: Duration = Duration::from_secs(120);
/// The time between two looks at who is still there.
const PAUSE: Duration = Duration::from_secs(1);
/// The time without programs and tables after which the process ends.
const LINGERS: Duration = Duration::from_secs(2);
/// The same if what was found counts for later starts on this machine.
const LINGERS_OF_NODE: Duration = Duration::from_secs(600);
/// The time without a question after which it ends although programs run: a session or a job that waits for
/// its last process should end.
const LONGEST: Duration = Duration::from_secs(600);
/// The number of users that are not known in a namespace of users: several can have it.
const UNKNOWN_USER: u32 = 65_534;
/// Maximum length of a path.
const LONGEST_PATH: usize = 4096;

/// Namespaces of mounts, users and clocks.
const NAMESPACES: [&str; 3] = ["ns/mnt", "ns/user", "ns/time"];
/// Lines of `/proc/PID/status`.
const RIGHTS: [&str; 6] = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapAmb:"];

/// All by which two processes can see other files at a path, may read other files, or have another clock: namespaces,
/// device, inode and mount of the root directory, users, groups and capabilities, and the label of a security module.
type View = (Vec<Option<(u64, u64)>>, (u32, u32, u64, u64), Vec<String>, Option<Vec<u8>>);

fn view(process: &str) -> Option<View> {
    let at = |name: &str| format!("/proc/{process}/{name}");
    let namespace = |name: &&str| match fs::metadata(at(name)) {
        Ok(facts) => Some(Some((facts.dev(), facts.ino()))),
        // This kernel does not have it.
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(None),
    };
    let namespaces = NAMESPACES.iter().map(namespace).collect::<Option<_>>()?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let root = statx(CWD, at("root"), AtFlags::empty(), wanted).ok()?;
    let root = (root.stx_dev_major, root.stx_dev_minor, root.stx_ino, root.stx_mnt_id);
    let status = fs::read_to_string(at("status")).ok()?;
    let is_right = |line: &&str| RIGHTS.iter().any(|right| line.starts_with(right));
    let rights = status.lines().filter(is_right).map(ToOwned::to_owned).collect();
    Some((namespaces, root, rights, fs::read(at("attr/current")).ok()))
}

/// Returns this process's own; `None` if `/proc` is that of other numbers of processes.
fn own_view() -> Option<View> {
    let number = fs::read_link("/proc/self").ok()?;
    (number.to_str()? == std::process::id().to_string()).then(|| view("self"))?
}

/// Returns the name at which tables can be had: another one for each version of becalm, each view, all values
/// of the variables that matter, and each pack whose results count for later starts.
fn name(pack: Option<Pack>) -> Option<String> {
    let mut hasher = FxHasher::default();
    own_view()?.hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for variable in [folder::VARIABLE, folder::SESSION, TRUST_TIMES] {
        env::var_os(variable).hash(&mut hasher);
    }
    (table::MAGIC, pack).hash(&mut hasher);
    // A program waits longer for a table without which it finds nothing (`tree_ask` of `audit/tree.c`).
    let of = if told_by(pack).is_some() { "pack" } else { "trees" };
    Some(format!("becalm-{of}-{}-{:016x}", trust::user(), hasher.finish()))
}

/// True if other users can have this user's number too, so that nobody gets a table.
pub(super) fn is_unknown_user() -> bool {
    trust::user() == UNKNOWN_USER
}

/// Gets the descriptors of a table and of its events, and the switch that names them, for a command, which this process
/// will become: of a pack, if its results count for later starts. Call this while the process has one thread.
pub(super) fn ask(command: &Path, pack: Option<Pack>) -> Option<([OwnedFd; 2], String)> {
    if is_unknown_user() {
        return None;
    }
    let name = name(pack)?;
    // The process may be about to end, and without it a program finds nothing of a tree that is gone.
    let attempts = if told_by(pack).is_some() { ATTEMPTS } else { 1 };
    (0..attempts).find_map(|_| ask_once(&name, command, pack))
}

fn ask_once(name: &str, command: &Path, pack: Option<Pack>) -> Option<([OwnedFd; 2], String)> {
    let kind = SocketType::SEQPACKET;
    let connection = match local_socket::connection(name, kind) {
        Ok(connection) => connection,
        Err(_) => {
            open(name, pack);
            local_socket::connection(name, kind).ok()?
        }
    };
    local_socket::send(&connection, command.as_os_str().as_bytes(), &[]).ok()?;
    let since = size_of::<u64>();
    let patience = match pack {
        Some(Pack { check: Check::Never, .. }) => PATIENCE_FOR_PACK,
        Some(_) => PATIENCE_FOR_NODE,
        None => PATIENCE,
    };
    let (bytes, descriptors) = local_socket::receive(&connection, since, patience)?;
    let since = u64::from_ne_bytes(bytes.try_into().ok()?);
    let descriptors: [OwnedFd; 2] = descriptors.try_into().ok()?;
    let [table, changes] = descriptors.each_ref().map(AsRawFd::as_raw_fd);
    // Its beginning is by the clock of the table, and programs that it starts can ask at the name.
    let switch = format!("trees:{table}/{changes}/{}/{since}/{name}", std::process::id());
    Some((descriptors, switch))
}

/// Returns the pack if programs get their results from it alone.
fn told_by(pack: Option<Pack>) -> Option<Pack> {
    pack.filter(|pack| pack.check == Check::Never)
}

/// Starts the process, unless another one has the name.
fn open(name: &str, pack: Option<Pack>) {
    let Ok(listener) = local_socket::listener(name, SocketType::SEQPACKET) else { return };
    let _ = detached([&listener], |[listener]| {
        if let Some(mut door) = Door::new(pack) {
            door.serve(&listener);
        }
    });
}

impl Shared {
    /// True if a program that begins now can use the table. `lasts` is true if it can be of any age.
    fn is_open(&self, lasts: bool) -> bool {
        let is_young = lasts || self.made.elapsed() < OLD;
        let is_there = |(folder, inode): &(PathBuf, u64)| {
            folder.metadata().is_ok_and(|facts| facts.ino() == *inode)
        };
        let is_usable = is_young && self.pack.as_ref().is_none_or(is_there);
        !self.table.is_off() && is_usable && !self.changes.happened()
    }

    /// True while its process is at work.
    fn is_attended(&self) -> bool {
        match self.table.attendant() {
            0 => self.made.elapsed() < PAUSE,
            Table::LEFT => false,
            process => is_running(process),
        }
    }

    /// Counts the programs of a table that was filled from a pack.
    fn count(&mut self) {
        self.counter.add(Counts::of(&self.table, None, false));
    }
}

struct Door {
    view: View,
    /// The pack, if its results count for later starts.
    pack: Option<Pack>,
    /// The programs that have a table.
    programs: Vec<u32>,
    tables: Vec<Shared>,
}

impl Door {
    fn new(pack: Option<Pack>) -> Option<Self> {
        if told_by(pack).is_some() {
            raised_limit(u64::MAX);
        }
        Some(Self { view: own_view()?, pack, programs: Vec::new(), tables: Vec::new() })
    }

    /// Gives tables until nobody is there, or has asked, for some time.
    fn serve(&mut self, listener: &OwnedFd) {
        let mut asked = Instant::now();
        let (mut last, mut looked) = (asked, asked);
        let lasts = self.pack.is_some();
        let is_of_node = lasts && told_by(self.pack).is_none();
        let lingers = if is_of_node { LINGERS_OF_NODE } else { LINGERS };
        while last.elapsed() < lingers && (lasts || asked.elapsed() < LONGEST) {
            if let Some((connection, process)) = local_socket::accept(listener, PAUSE) {
                asked = Instant::now();
                last = asked;
                self.answer(&connection, process);
            }
            if looked.elapsed() >= PAUSE {
                looked = Instant::now();
                self.programs.retain(|&process| is_running(process));
                self.tables.iter_mut().for_each(Shared::count);
                self.tables.retain(Shared::is_attended);
                if !self.programs.is_empty() || !(lasts || self.tables.is_empty()) {
                    last = looked;
                }
            }
        }
        self.tables.iter_mut().for_each(Shared::count);
    }

    /// Gives a process the table of its command; closes the connection if there is none.
    fn answer(&mut self, connection: &OwnedFd, process: u32) -> Option<()> {
        // On a busy node it may be a while before a process that has connected goes on.
        let patience = if self.pack.is_some() { PATIENCE_FOR_NODE } else { PATIENCE_OF_DOOR };
        let (bytes, _) = local_socket::receive(connection, LONGEST_PATH, patience)?;
        let of = process.to_string();
        (view(&of)? == self.view).then_some(())?;
        let path = bytes.split(|&byte| byte == 0).next()?;
        let directory = || fs::read_link(format!("/proc/{of}/cwd")).ok();
        let path = crate::path::path_of(path);
        let path = if path.is_absolute() { path } else { directory()?.join(path) };
        let mut command = std::path::absolute(path).ok()?;
        if let Some(pack) = told_by(self.pack) {
            command = pack.original(&folder::existing()?, command);
            self.tell(pack, &command);
        }
        let known = self.known(&command).or_else(|| self.any_told());
        // In this millisecond, paths of a table that is known may have been looked at before the program began.
        let since = look::now() + u64::from(known.is_some());
        let made = known.is_none().then(|| self.make(&command, process)).flatten();
        let shared = known.or(made.as_ref().map(|(shared, ..)| shared))?;
        shared.table.join(since);
        let descriptors = [&shared.file, &shared.changes.0];
        local_socket::send(connection, &since.to_ne_bytes(), &descriptors).ok()?;
        self.programs.push(process);
        if let Some((shared, attended, record)) = made {
            self.attend(shared, attended, &record);
        }
        Some(())
    }

    /// Returns the table from a pack with the most directories: a program that the pack does not know may look for
    /// libraries in the tree.
    fn any_told(&self) -> Option<&Shared> {
        let told = self.tables.iter().filter(|it| it.pack.is_some() && it.is_open(true));
        told.max_by_key(|it| it.directories.len())
    }

    /// Returns the table that a command can use.
    fn known(&self, command: &Path) -> Option<&Shared> {
        let lasts = self.pack.is_some();
        self.tables.iter().find(|it| it.command == command && it.is_open(lasts))
    }

    /// Makes the tables of a command and of the programs that it starts, from a pack: a program does not wait
    /// for long.
    fn tell(&mut self, pack: Pack, command: &Path) -> Option<()> {
        let folder = folder::existing()?;
        let mut left = vec![command.to_owned()];
        while let Some(command) = left.pop().filter(|_| self.tables.len() < MOST_TABLES) {
            if self.known(&command).is_some() {
                continue;
            }
            let Some((shared, programs)) = packed::tell(pack, &folder, &command) else { continue };
            left.extend(programs.into_iter().map(PathBuf::from));
            self.tables.push(shared);
        }
        Some(())
    }

    /// Makes a table for this program; returns it with what has to be attended and the command's record.
    fn make(&self, command: &Path, process: u32) -> Option<(Shared, Attended, OwnedFd)> {
        let is_possible = told_by(self.pack).is_none() && self.tables.len() < MOST_TABLES;
        is_possible.then_some(())?;
        let folder = folder::existing();
        let of_folder = |folder: &PathBuf| place(folder, command).open().ok()?;
        let mut record = folder.as_ref().and_then(of_folder);
        let header = record.as_mut().and_then(Header::read).unwrap_or_default();
        let of_pack = self.pack.zip(folder.as_deref());
        let sizes = of_pack.map_or(header.sizes(), |(pack, folder)| pack.sizes(folder, &header));
        // Another start may replace the file meanwhile.
        let record = record.or_else(|| File::open("/dev/null").ok())?.into();
        let file = table::make(sizes, header.paths == 0 || header.is_wanting()).ok()?;
        let table = Table::map(&file, sizes).ok()?;
        let changes = Changes::new().ok()?;
        let door = self.pack.map(|pack| (std::process::id(), pack));
        let (command, together) = (command.to_owned(), header.together);
        let attended =
            Attended { command: command.clone(), process, folder, sizes, together, door };
        let (made, counter, directories) = (Instant::now(), Counter::new(None), Vec::new());
        let shared =
            Shared { command, made, counter, file, table, changes, directories, pack: None };
        Some((shared, attended, record))
    }

    /// Starts the process that fills a table, and learns from the start of its first program.
    fn attend(&mut self, shared: Shared, attended: Attended, record: &OwnedFd) {
        let keep = [&shared.file, &shared.changes.0, record];
        let begun = detached(keep, |[table, changes, record]| {
            attended.attend(table, changes, record.into());
        });
        if begun.is_ok() {
            self.tables.push(shared);
        }
    }
}
