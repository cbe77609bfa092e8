//! The process beside a start: it fills the table of paths, keeps it fresh, and learns from the start.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::detached::lower_priority;
use becalm_host::tree::look::Changes;
use becalm_host::tree::table::Table;
use rustc_hash::FxHashSet;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit, test_kill_process};

use crate::trees::check::Paths;
use crate::trees::record::{Header, Place, Record};
use crate::trees::{folder, learn};

/// The longest time that a start is attended.
const LONGEST: Duration = Duration::from_secs(30);
/// A start is over if it looks up nothing for this time.
const IDLE: Duration = Duration::from_secs(5);
/// The time between two looks at the program.
const PAUSE: Duration = Duration::from_millis(20);
/// The process ends after this time, whatever it waits for: a server may not answer.
const LAST: Duration = Duration::from_secs(300);
/// The age at which results are looked up again: well before they count no more.
const REFRESHED: Duration = Duration::from_millis(1200);

/// A start to be attended.
pub(super) struct Attended {
    pub(super) command: PathBuf,
    /// The process of the program.
    pub(super) process: u32,
    /// The folder of the record, if there is one.
    pub(super) folder: Option<PathBuf>,
    /// The first line of the record.
    pub(super) header: Header,
}

/// Allows this process as many descriptors as it may have: each directory takes one.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns devices and inodes of the files that a process has open.
fn open_files(process: u32) -> FxHashSet<(u64, u64)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.path().metadata().ok())
        .map(|facts| (facts.dev(), facts.ino()))
        .collect()
}

impl Attended {
    /// Attends the start whose table this is.
    pub(super) fn attend(self, table: OwnedFd, changes: OwnedFd, record: File) {
        let changes = Changes::from(changes);
        more_descriptors();
        thread::spawn(|| {
            thread::sleep(LAST);
            std::process::exit(0);
        });
        let Ok(table) = Table::map(table, self.header.sizes()) else { return };
        let record = Record::read(record).unwrap_or_default();
        self.answer(&table, &changes, &record);
        table.turn_off();
        let kept = open_files(self.process);
        lower_priority();
        self.learn(&table, record, &kept);
    }

    /// Answers until the start is over.
    fn answer(&self, table: &Table, changes: &Changes, record: &Record) {
        let paths = Paths::of(record, self.folder.as_deref().unwrap_or(Path::new("/")));
        let is_filled = paths.fill(table) && !record.paths.is_empty();
        if is_filled {
            paths.look(table, changes);
        }
        let began = Instant::now();
        let (mut looked, mut news, mut activity) = (began, began, 0);
        while self.is_running() && began.elapsed() < LONGEST && news.elapsed() < IDLE {
            thread::sleep(PAUSE);
            if table.activity() != activity {
                (activity, news) = (table.activity(), Instant::now());
            }
            // Results that nobody asks for need not be fresh.
            let is_asked = news > looked;
            if is_filled && is_asked && looked.elapsed() > REFRESHED && !changes.happened() {
                looked = Instant::now();
                paths.look(table, changes);
            }
        }
    }

    fn is_running(&self) -> bool {
        let process = Pid::from_raw(self.process.cast_signed());
        process.is_some_and(|it| test_kill_process(it).is_ok())
    }

    /// Learns from the start, if no other one is being learned.
    fn learn(self, table: &Table, record: Record, kept: &FxHashSet<(u64, u64)>) {
        let Some(folder) = folder::made().filter(|_| table.is_taken()) else { return };
        let place = Place::of(folder, &self.command);
        let Some(lock) = place.lock() else { return };
        // What another start has learned meanwhile is not lost, and this one's table not mixed up with it.
        let now = place.open().and_then(Record::read).unwrap_or_default();
        if now == record {
            learn::learn(&place, &self.command, record, table, kept);
        }
        place.unlock();
        drop(lock);
    }
}
