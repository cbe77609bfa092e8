//! Records the pages that a start uses, from another process, while the program runs.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::detached::lower_priority;
use becalm_host::pages::Touched;
use becalm_host::pages::fault_around::{Connection, Listener};
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

/// Descriptors of the processes whose page tables have touched pages alone.
type Exact = Mutex<FxHashMap<u32, Arc<OwnedFd>>>;

/// Watches the program that the process `pid`, a becalm, becomes, and those that it starts, and adds
/// the pages that they touch to the record. The calling thread gets the lowest priority.
pub fn learn(place: &Place, command: &Path, pid: u32, listener: &Listener) {
    let Ok(Some(lock)) = place.lock() else { return };
    let known = || place.open().ok().flatten().and_then(|file| Record::read(file).ok());
    // Other starts may have been learned meanwhile.
    if known().is_none_or(|record| record.header.is_wanting()) {
        let (touched, is_exact) = watched(pid, listener);
        if touched.count() > 0 {
            let mut record = known().unwrap_or_default();
            record.header.schema = SCHEMA.to_owned();
            record.header.command = command.to_string_lossy().into_owned();
            record.add(&touched, is_exact);
            // If it cannot be written, the next start is learned.
            let _ = place.write(&record);
        }
    }
    place.unlock();
    drop(lock);
}

/// Returns the touched pages, and true if those of the command's own process have no neighbours.
fn watched(pid: u32, listener: &Listener) -> (Touched, bool) {
    let (exact, is_over) = (Exact::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let serve = || serve(listener, &exact, &is_over);
        // A process that ends waits for its last look, so this thread keeps its priority.
        let serving = thread::Builder::new().spawn_scoped(scope, serve);
        lower_priority();
        let (touched, own) = (Touched::default(), executable("self"));
        let mut start = Watched { pid, exact: &exact, touched, own };
        start.watch();
        is_over.store(true, Ordering::Relaxed);
        // Without a thread no process connects.
        if let Some(last) = serving.ok().and_then(|thread| thread.join().ok()) {
            start.touched.add_all(&last);
        }
        (start.touched, locked(&exact).contains_key(&pid))
    })
}

/// Serves processes that connect, and returns the pages of those that ended.
fn serve(listener: &Listener, exact: &Exact, is_over: &AtomicBool) -> Touched {
    let mut last = Touched::default();
    while !is_over.load(Ordering::Relaxed) {
        match listener.accept(PAUSES.0) {
            Some(Connection { pid, descriptor: Some(descriptor), .. }) => {
                locked(exact).insert(pid, Arc::new(descriptor));
            }
            // It ends when the connection is dropped.
            Some(connection) => drop(last.add(connection.pid, None)),
            None => {}
        }
    }
    last
}

fn locked(exact: &Exact) -> MutexGuard<'_, FxHashMap<u32, Arc<OwnedFd>>> {
    exact.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A start that is watched.
struct Watched<'a> {
    /// The process of the command.
    pid: u32,
    exact: &'a Exact,
    touched: Touched,
    /// becalm's own file, as device and inode.
    own: Option<(u64, u64)>,
}

impl Watched<'_> {
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
            thread::sleep(pause.max(looked.elapsed()));
            pause = (pause * 3 / 2).min(PAUSES.1);
        }
    }

    /// Looks at the pages of all processes. Returns false if the command's process has ended.
    fn look(&mut self) -> bool {
        let mut processes = vec![self.pid];
        let mut at = 0;
        while let Some(&pid) = processes.get(at) {
            let faults = locked(self.exact).get(&pid).map(Arc::clone);
            let looked = self.touched.add(pid, faults.as_ref().map(|it| it.as_fd()));
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
