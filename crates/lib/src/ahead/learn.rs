//! Records the pages that a start uses, from another process, while the program runs.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use becalm_host::pages::Touched;
use becalm_host::pages::fault_around::Listener;
use rustc_hash::FxHashMap;
use std::os::unix::fs::MetadataExt;

use crate::ahead::record::{Place, Record, SCHEMA};

/// The longest time that a start is watched.
const LONGEST: Duration = Duration::from_secs(30);
/// A start is over if it touches no new pages for this time.
const IDLE: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Pages that are recorded for a start: 1 GiB.
const MOST_PAGES: u64 = 1 << 18;
/// Processes of a start that are watched.
const MOST_PROCESSES: usize = 64;

/// Watches the program that the process `pid`, a becalm, becomes, and those that it starts, and adds
/// the pages that they touch to the record.
pub fn learn(place: &Place, command: &Path, pid: u32, listener: &Listener) {
    let Ok(Some(lock)) = place.lock() else { return };
    let known = || place.open().ok().flatten().and_then(|file| Record::read(file).ok());
    // Other starts may have been learned meanwhile.
    if known().is_none_or(|record| record.header.is_wanting()) {
        let mut start = Watched::of(pid, listener);
        start.watch();
        if start.touched.count() > 0 {
            let mut record = known().unwrap_or_default();
            record.header.schema = SCHEMA.to_owned();
            record.header.command = command.to_string_lossy().into_owned();
            record.add(&start.touched, start.is_exact());
            // If it cannot be written, the next start is learned.
            let _ = place.write(&record);
        }
    }
    place.unlock();
    drop(lock);
}

/// A start that is watched.
struct Watched<'a> {
    /// The process of the command.
    pid: u32,
    listener: &'a Listener,
    /// Descriptors of the processes whose page tables have touched pages alone.
    exact: FxHashMap<u32, OwnedFd>,
    touched: Touched,
    /// becalm's own file, as device and inode.
    own: Option<(u64, u64)>,
}

impl<'a> Watched<'a> {
    fn of(pid: u32, listener: &'a Listener) -> Self {
        let (exact, touched) = (FxHashMap::default(), Touched::default());
        Self { pid, listener, exact, touched, own: executable("self") }
    }

    /// True if the pages of the command's own process are those that it touched.
    fn is_exact(&self) -> bool {
        self.exact.contains_key(&self.pid)
    }

    fn watch(&mut self) {
        let began = Instant::now();
        let (mut pause, mut news) = (PAUSES.0, began);
        while began.elapsed() < LONGEST && self.touched.count() < MOST_PAGES {
            let (before, looked) = (self.touched.count(), Instant::now());
            match executable(&self.pid.to_string()) {
                None => return,
                // It has not become the program yet.
                now if now == self.own => {}
                Some(_) if !self.look() => return,
                Some(_) => {}
            }
            if self.touched.count() > before {
                (pause, news) = (PAUSES.0, Instant::now());
            } else if news.elapsed() > IDLE {
                return;
            }
            self.wait(pause.max(looked.elapsed()));
            pause = (pause * 3 / 2).min(PAUSES.1);
        }
    }

    /// Waits for this time, and serves processes that connect.
    fn wait(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while let Some(connection) =
            self.listener.accept(until.saturating_duration_since(Instant::now()))
        {
            match connection.descriptor {
                Some(descriptor) => drop(self.exact.insert(connection.pid, descriptor)),
                // It ends when the connection is dropped.
                None => drop(self.touched.add(connection.pid, None)),
            }
        }
    }

    /// Looks at the pages of all processes. Returns false if the command's process has ended.
    fn look(&mut self) -> bool {
        let mut processes = vec![self.pid];
        let mut at = 0;
        while let Some(&pid) = processes.get(at) {
            let faults = self.exact.get(&pid).map(AsFd::as_fd);
            let looked = self.touched.add(pid, faults);
            if pid == self.pid && looked.is_err() {
                return false;
            }
            let room = MOST_PROCESSES.saturating_sub(processes.len());
            processes.extend(children(pid).into_iter().take(room));
            at += 1;
        }
        true
    }
}

/// Returns the device and inode of a process's program; `None` if it has ended or may not be examined.
fn executable(pid: &str) -> Option<(u64, u64)> {
    let facts = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((facts.dev(), facts.ino()))
}

/// Returns the children of a process (proc_tid_children(5)).
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}
