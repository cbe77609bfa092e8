//! Records the pages that a start uses, from another process, while the program runs.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becalm_host::child::family_of;
use becalm_host::detached::lower_priority;
use becalm_host::pages::fault_around::{Connection, Listener};
use becalm_host::pages::opens::{Events, Opens};
use becalm_host::pages::resident::{self, Residency};
use becalm_host::pages::{MOST_TOUCHED, PAGE, Touched, open};
use rustc_hash::FxHashMap;
use std::os::unix::fs::MetadataExt;

use crate::ahead::record::{MOST_OF_OPENED, NO_HOME, Record, RecordedFile, lock, place};
use crate::records::Place;
use crate::run::program;

/// The longest time that a start is watched.
const LONGEST: Duration = Duration::from_secs(30);
/// A start is over if it touches no new pages for this time.
const IDLE: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Processes of a start that are watched.
const MOST_PROCESSES: usize = 64;
/// A file of at most this number of pages is read as a whole, whatever parts were seen.
const SMALL: u64 = 16;

/// Descriptors of the processes whose page tables have touched pages alone.
type Exact = Mutex<FxHashMap<u32, Arc<OwnedFd>>>;

/// The process of becalm that opens files of a start meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// No process.
    Nobody,
    /// The reader of the recorded files: each is opened once.
    Reader,
    /// The maker of an index: it opens anything.
    Indexer,
}

/// Files and directories that are opened during a start.
struct Seen {
    events: Events,
    opens: Mutex<Opens>,
    /// The directories of earlier starts.
    known: Vec<PathBuf>,
}

/// Watches the program that the process `pid`, a becalm, becomes, and those that it starts, and adds
/// the pages that they touch, and the files that they open, to the record. The calling thread gets the
/// lowest priority.
pub fn learn(place: &Place, command: &Path, pid: u32, listener: &Listener, beside: Beside) {
    let Ok(Some(_lock)) = lock(place) else { return };
    // Other starts may have been learned meanwhile.
    let before = place.open().ok().flatten().and_then(Record::read);
    if before.as_ref().is_none_or(|record| record.header.is_wanting()) {
        let opens = seen(before.as_ref(), beside);
        let (touched, is_exact) = watched(pid, listener, opens.as_ref());
        if touched.count > 0 {
            let mut record = Record::to_learn(place, command);
            record.add(&touched, is_exact);
            // If it cannot be written, the next start is learned.
            let _ = record.write(place);
        }
    }
}

/// Adds files that a traced program has opened to the record of its command: those that it reads are in no page
/// table. Directories and other files that are not regular are left out. Returns the number of files.
///
/// # Errors
/// Returns an error if the command cannot be found or the record cannot be written.
pub fn opened(command: &OsStr, opened: impl Iterator<Item = PathBuf>) -> Result<usize> {
    let path = program::find(command).ok().context("the command cannot be found")?.path;
    let path = std::path::absolute(&path).unwrap_or(path);
    let place = place(&path).context(NO_HOME)?;
    let busy = "a start of the command is being recorded; try again";
    let _lock = lock(&place)?.context(busy)?;
    place.open()?;
    let mut record = Record::to_learn(&place, &path);
    let count = record.add_opened(opened);
    record.write(&place).map(|()| count)
}

/// Returns a watch without directories, and the directories of a record; `None` if the files that are
/// opened are not learned.
fn seen(before: Option<&Record>, beside: Beside) -> Option<Seen> {
    if beside == Beside::Indexer {
        return None;
    }
    let (events, mut opens) = Events::new().ok()?;
    let files = before.map(|record| record.files.as_slice()).unwrap_or_default();
    if beside == Beside::Reader {
        files.iter().for_each(|file| opens.expect(Path::new(&file.path)));
    }
    let known = files.iter().filter_map(RecordedFile::directory).map(ToOwned::to_owned).collect();
    Some(Seen { events, opens: Mutex::new(opens), known })
}

/// Returns the touched pages, and true if those of the command's own process have no neighbours.
fn watched(pid: u32, listener: &Listener, opens: Option<&Seen>) -> (Touched, bool) {
    let (exact, is_over) = (Exact::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let serve = || serve(listener, &exact, &is_over);
        // A process that ends waits for its last look, so these threads keep their priority.
        let serving = thread::Builder::new().spawn_scoped(scope, serve);
        if let Some(opens) = opens {
            let see = || see(opens, &is_over);
            let _ = thread::Builder::new().spawn_scoped(scope, see);
        }
        lower_priority();
        let (touched, own, noted) = (Touched::default(), executable("self"), Vec::new());
        let mut start = Watched { pid, exact: &exact, touched, own, opens, noted };
        start.watch();
        is_over.store(true, Ordering::Relaxed);
        // Without a thread no process connects.
        if let Some(last) = serving.ok().and_then(|thread| thread.join().ok()) {
            start.touched.add_all(&last);
        }
        // Of a program that ended before it was looked at nothing is known: others opened the files.
        if start.touched.count > 0 {
            start.add_opened();
        }
        (start.touched, locked(&exact).contains_key(&pid))
    })
}

/// Sees what is opened: a directory is watched before the program reads the files in it.
fn see(seen: &Seen, is_over: &AtomicBool) {
    // The directories that earlier starts used come first: to watch those beside them takes longer.
    for watch in [Opens::add, Opens::watch] {
        seen.known.iter().for_each(|it| watch(&mut locked(&seen.opens), &seen.events, it));
    }
    while !is_over.load(Ordering::Relaxed) {
        seen.events.wait(PAUSES.0);
        locked(&seen.opens).read(&seen.events);
    }
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A start that is watched.
struct Watched<'a> {
    /// The process of the command.
    pid: u32,
    exact: &'a Exact,
    touched: Touched,
    /// becalm's own file, as device and inode.
    own: Option<(u64, u64)>,
    opens: Option<&'a Seen>,
    /// Files and directories that were opened, in order.
    noted: Vec<PathBuf>,
}

impl Watched<'_> {
    fn watch(&mut self) {
        let began = Instant::now();
        let (mut pause, mut news) = (PAUSES.0, began);
        while began.elapsed() < LONGEST && self.touched.count < MOST_TOUCHED {
            let (before, looked) = (self.touched.count, Instant::now());
            match executable(&self.pid.to_string()) {
                None => return,
                // It has not become the program yet.
                now if now == self.own => {}
                Some(_) if !self.look() => return,
                Some(_) => {}
            }
            // What was opened is no news: other processes may never end to open files.
            if self.touched.count > before {
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
        for pid in family_of(self.pid, MOST_PROCESSES) {
            // Programs that end wait for the thread that needs the lock.
            let faults = locked(self.exact).get(&pid).map(Arc::clone);
            let looked = self.touched.add(pid, faults.as_ref().map(|it| it.as_fd()));
            if pid == self.pid && looked.is_err() {
                return false;
            }
        }
        self.note();
        true
    }

    /// Notes what was opened since the last look, and watches the directories of all files.
    fn note(&mut self) {
        let Some(Seen { events, opens, .. }) = self.opens else { return };
        let mut opens = locked(opens);
        opens.read(events);
        for path in opens.take() {
            self.touched.add_pages(&path, []);
            self.noted.push(path);
        }
        let files = self.touched.files();
        files.filter_map(|(path, _)| path.parent()).for_each(|it| opens.watch(events, it));
    }

    /// Adds the directories and files that were opened. Of an ELF file the mapped pages are used.
    fn add_opened(&mut self) {
        self.note();
        for path in &self.noted {
            let Ok(facts) = path.symlink_metadata() else { continue };
            let pages = facts.len().div_ceil(PAGE).min(MOST_OF_OPENED);
            if facts.is_dir() {
                self.touched.add_pages(path, [0]);
            } else if (pages <= SMALL || !self.touched.has(path)) && !is_elf(path) {
                self.touched.add_pages(path, 0..pages);
            }
        }
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    // Nothing is read from the disk for this.
    let file = open(path).ok().filter(|file| resident::of(file, 0) != Residency::OnDisk);
    file.is_some_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}

/// Returns the device and inode of a process's program; `None` if it has ended or may not be examined.
fn executable(pid: &str) -> Option<(u64, u64)> {
    let facts = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((facts.dev(), facts.ino()))
}
