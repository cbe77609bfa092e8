//! The process beside a start: it fills the table of paths, keeps it fresh, and learns from the start. It may
//! be the start of several programs.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::detached::lower_priority;
use becalm_host::tree::look::{self, Changes};
use becalm_host::tree::table::{Sizes, Table};
use becalm_host::write::raised_limit;
use rustc_hash::FxHashSet;
use rustix::io::fcntl_dupfd_cloexec;

use crate::trees::check::{Looked, Paths};
use crate::trees::counts::{Counter, Counts};
use crate::trees::learn::learn;
use crate::trees::packed::{self, Pack};
use crate::trees::record::Record;
use crate::trees::{folder, is_running, is_slow, started};

/// The longest time that a program is attended.
const LONGEST: Duration = Duration::from_secs(30);
/// A start is over if it looks up nothing for this time.
const IDLE: Duration = Duration::from_secs(5);
/// The time between two looks at the program.
const PAUSE: Duration = Duration::from_millis(20);
/// The same if what is found counts for later starts on this machine.
const PAUSE_OF_NODE: Duration = Duration::from_millis(500);
/// The process ends after this time, whatever it waits for: a server may not answer.
const LAST: Duration = Duration::from_secs(300);
/// The time for which results count (`LONGEST` of `crates/audit/module/tree.c`).
pub(super) const COUNTS: Duration = Duration::from_secs(3);
/// Before that, results are looked up again: so much earlier, and one and a half times as long as it takes.
const EARLIER: Duration = Duration::from_millis(500);
/// The least and the longest time between two looks.
const REFRESHED: [Duration; 2] = [Duration::from_millis(600), Duration::from_millis(2000)];
/// If programs of this command were started together: the time without another one after which the
/// paths are looked at, once for all of them, and the longest time to wait.
const TOGETHER: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(100)];
/// Of such programs, so many that began later are worth another look at all paths: a look takes more calls than one
/// of them makes, as the kernel knows what the first ones have looked up.
const ENOUGH: u64 = 4;

/// The programs that share a table.
pub(super) struct Attended {
    pub(super) command: PathBuf,
    /// The process of the first program.
    pub(super) process: u32,
    /// The folder of the record, if there is one.
    pub(super) folder: Option<PathBuf>,
    pub(super) sizes: Sizes,
    /// The number of programs that began together in the last start.
    pub(super) together: u64,
    /// The process that gives the tables and its pack, if what is found counts as long as it runs.
    pub(super) door: Option<(u32, Pack)>,
}

/// Returns devices and inodes of the files that a process has open.
fn open_files(process: u32) -> FxHashSet<(u64, u64)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let facts = entries.filter_map(|entry| entry.path().metadata().ok());
    facts.map(|facts| (facts.dev(), facts.ino())).collect()
}

/// The last look at all paths.
struct Look {
    began: Instant,
    took: Duration,
    /// The time of the begin by the clock of tables.
    time: u64,
    /// The programs that the table had then: results count for these.
    programs: u64,
}

impl Look {
    fn at(table: &Table, look: impl FnOnce()) -> Self {
        // A program that joins from now on needs a later look.
        let (programs, began, time) = (table.programs(), Instant::now(), look::now());
        look();
        Self { began, took: began.elapsed(), time, programs }
    }
}

impl Attended {
    /// Attends the start whose table this is.
    pub(super) fn attend(self, table: OwnedFd, changes: OwnedFd, record: File) {
        let changes = Changes(changes);
        // Each directory takes one.
        raised_limit(u64::MAX);
        // The kernel's table of descriptors grows now, while there is one thread: with several, each would wait
        // (`expand_fdtable` of Linux fs/file.c).
        let last = i32::try_from(self.sizes.entries).unwrap_or(i32::MAX);
        drop(fcntl_dupfd_cloexec(&table, last));
        let door = self.door;
        thread::spawn(move || {
            while door.is_some_and(|(door, _)| is_running(door)) {
                thread::sleep(PAUSE_OF_NODE);
            }
            thread::sleep(LAST);
            std::process::exit(0);
        });
        let Ok(table) = Table::map(table, self.sizes) else { return };
        table.attend();
        let (process, command) = (self.process, self.command.clone());
        let watching = thread::spawn(move || started::watch(process, &command));
        let mut record = Record::read(record).unwrap_or_default();
        let mut counter = Counter::new(folder::made().filter(|_| !record.paths.is_empty()));
        let (together, looked) = self.answer(&table, &changes, &record, &mut counter);
        counter.add(Counts::of(&table, Some(&record), changes.happened()));
        table.turn_off();
        let kept = open_files(self.process);
        lower_priority();
        record.header.together = together;
        learn(&self.command, record, &table, &looked, &kept);
        table.leave();
        drop((table, changes));
        let _ = watching.join();
    }

    /// Answers until the starts are over. Returns the number of programs that began with the first one, and
    /// what was found; nothing if something has changed.
    fn answer(
        &self,
        table: &Table,
        changes: &Changes,
        record: &Record,
        counter: &mut Counter,
    ) -> (u64, Looked) {
        let folder = self.folder.as_deref().unwrap_or(Path::new("/"));
        let mut paths = Paths::of(record, folder, is_slow);
        paths.lasts = self.door.is_some();
        if let Some((_, pack)) = self.door {
            paths.map_from(|path| pack.file(folder, path));
        }
        let is_filled = paths.fill(table) && !record.paths.is_empty();
        if self.together > 1 {
            wait_for_others(table);
        }
        let last = Look::at(table, || {
            if is_filled {
                paths.look(table, changes, true);
            }
        });
        let together = table.programs();
        let mut count = || counter.update(|| Counts::of(table, Some(record), false));
        match self.door {
            Some((door, pack)) => {
                if is_filled && packed::is_unchanged(pack, folder, &self.command, changes) {
                    paths.let_map(table);
                }
                while is_running(door) && !changes.happened() {
                    thread::sleep(PAUSE_OF_NODE);
                    count();
                }
            }
            None => self.keep_fresh(table, changes, is_filled.then_some(&paths), last, count),
        }
        let looked = paths.looked(table);
        (together, if changes.happened() { Looked::default() } else { looked })
    }

    /// Repeats the calls before their results are too old, until the starts are over.
    fn keep_fresh(
        &self,
        table: &Table,
        changes: &Changes,
        paths: Option<&Paths<'_>>,
        mut last_look: Look,
        mut count: impl FnMut(),
    ) {
        let mut began = Instant::now();
        let (mut news, mut activity, mut last) = (began, 0, table.last_since());
        let enough = if self.together > 1 { ENOUGH } else { 1 };
        // Of several programs, all are done when they ask nothing for some time.
        let is_wanted = || table.programs() > 1 || is_running(self.process);
        while is_wanted() && began.elapsed() < LONGEST && news.elapsed() < IDLE {
            thread::sleep(PAUSE);
            count();
            if table.activity() != activity {
                (activity, news) = (table.activity(), Instant::now());
            }
            let is_joined = table.last_since() != last;
            if is_joined {
                last = table.last_since();
                (began, news) = (Instant::now(), Instant::now());
            }
            let [least, most] = REFRESHED;
            let pause = COUNTS.saturating_sub(EARLIER + last_look.took * 3 / 2).clamp(least, most);
            // While programs still join, a look would come too early for some of them.
            let waits = is_joined && last_look.began.elapsed() < last_look.took + TOGETHER[1];
            let is_late = last > last_look.time && table.programs() >= last_look.programs + enough;
            let is_old = is_late && !waits;
            // Results that nobody asks for need not be fresh.
            let is_due = news > last_look.began && last_look.began.elapsed() > pause;
            if let Some(paths) = paths
                && (is_old || is_due)
                && !changes.happened()
            {
                last_look = Look::at(table, || paths.look(table, changes, is_old));
            }
        }
    }
}

/// Waits for more programs that begin now.
fn wait_for_others(table: &Table) {
    let [quiet, longest] = TOGETHER;
    let began = Instant::now();
    let (mut programs, mut last) = (table.programs(), began);
    while last.elapsed() < quiet && began.elapsed() < longest {
        thread::sleep(quiet / 5);
        if table.programs() != programs {
            (programs, last) = (table.programs(), Instant::now());
        }
    }
}
