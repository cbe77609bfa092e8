//! Records what a program waits for when it touches memory: page faults for pages that are not in memory,
//! with the files that they are of and their time.
//!
//! The kernel tells begin and end of each page fault and when a thread sleeps (`perf_event_open`, software
//! events, inherited by threads and children). A fault waits if the kernel counts it as major, or if its
//! thread sleeps and the page is of a file: the kernel counts a fault as minor if the page is already being
//! read, although the wait can be as long.
//!
//! To report all page faults makes a warm start measurably slower, so it begins with the first major
//! fault. A thread of this process collects them, because a program that touches much memory makes many
//! between two stops of the tracer.

mod event;
mod ring;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bstr::BString;
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use self::event::{Event, Timed};
use self::ring::{Kind, Ring};
use super::report::{FileWaits, Image, Pages};
use super::sys::Pid;

/// The thread that collects the events of a run.
#[derive(Debug)]
pub(super) struct Collector {
    /// Dropped at the end of the run.
    running: io::PipeWriter,
    thread: JoinHandle<State>,
}

impl Collector {
    /// Begins to collect the events of a process, from its `execve` on, on these processors. If the start
    /// `is_cold`, all page faults are reported from the begin, and otherwise from the first major one on.
    ///
    /// # Errors
    /// Returns the kernel's refusal.
    pub(super) fn start(
        pid: Pid,
        affinity: Option<CpuSet>,
        is_cold: bool,
    ) -> io::Result<Collector> {
        let mut rings = Vec::new();
        for processor in 0..processors() {
            for kind in [Kind::Began, Kind::Minor, Kind::Major] {
                match Ring::open(pid, processor, kind, is_cold) {
                    Ok(ring) => rings.push(ring),
                    // A processor that is turned off.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let (ended, running) = io::pipe()?;
        let work = move || {
            // If it fails, the thread shares the program's processor, which costs only time.
            let _ = affinity.map(|affinity| sched_setaffinity(None, &affinity));
            collect(rings, &ended, is_cold)
        };
        let thread = thread::Builder::new().name("page faults".to_owned()).spawn(work)?;
        Ok(Collector { running, thread })
    }

    /// Returns what was collected until now.
    pub(super) fn finish(self) -> State {
        drop(self.running);
        self.thread.join().unwrap_or_default()
    }
}

/// Returns the number of processors, those that are turned off included.
fn processors() -> i32 {
    #[allow(unsafe_code, reason = "rustix has no sysconf for processors")]
    // SAFETY: `sysconf` takes an integer and returns one.
    let number = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    i32::try_from(number).unwrap_or(1)
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Reads the rings until the other end of the pipe is closed.
fn collect(mut rings: Vec<Ring>, ended: &io::PipeReader, mut has_all: bool) -> State {
    let mut state = State::default();
    let mut events: Vec<Timed> = Vec::new();
    loop {
        let is_over = wait(&rings, ended);
        // The events of a thread may be in the rings of several processors. Those after this time may
        // miss an earlier one, so they wait for the next round.
        let until = if is_over { u64::MAX } else { now() };
        for ring in &mut rings {
            let kind = ring.kind;
            ring.read(|record| events.extend(event::parse(record, kind)));
        }
        let is_major = |event: &Timed| matches!(event.event, Event::Ended { is_major: true, .. });
        if !has_all && events.iter().any(is_major) {
            rings.iter().filter(|ring| ring.kind != Kind::Major).for_each(Ring::enable);
            has_all = true;
        }
        events.sort_by_key(|event| event.time);
        let complete = events.partition_point(|event| event.time < until);
        events.drain(..complete).for_each(|event| state.add(event));
        if is_over {
            return state;
        }
    }
}

/// Waits until a ring has many events. Returns true if the run is over.
fn wait(rings: &[Ring], ended: &io::PipeReader) -> bool {
    let rings = rings.iter().map(|ring| PollFd::from_borrowed_fd(ring.as_fd(), PollFlags::IN));
    let end = PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN);
    let mut all: Vec<PollFd<'_>> = rings.chain([end]).collect();
    loop {
        // A failed wait is one that was interrupted.
        let _ = poll(&mut all, None);
        if all.last().is_some_and(|end| !end.revents().is_empty()) {
            return true;
        }
        if all.iter().any(|ring| ring.revents().contains(PollFlags::IN)) {
            return false;
        }
        // The processes of a ring have all ended: it would end every further wait.
        all.retain(|ring| !ring.revents().intersects(PollFlags::HUP | PollFlags::ERR));
    }
}

/// The processes of a run, as far as their events are known.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Each thread's last page fault.
    began: FxHashMap<u32, Began>,
    /// The time at which each thread slept last.
    slept: FxHashMap<u32, u64>,
    maps: FxHashMap<u32, Maps>,
    /// The images of each process that are not in a report yet, in order.
    images: FxHashMap<u32, VecDeque<Waits>>,
    /// The number of events that were lost.
    pub(super) lost: u64,
}

/// A page fault that has not ended.
#[derive(Debug)]
struct Began {
    address: u64,
    time: u64,
    slept: bool,
}

/// The waits of an image.
#[derive(Debug, Default)]
struct Waits {
    /// Number of waits and their time by file.
    files: FxHashMap<Option<Arc<BString>>, (u64, u64)>,
    /// Begin and end of each wait.
    times: Vec<(u64, u64)>,
}

impl State {
    fn add(&mut self, Timed { time, event }: Timed) {
        match event {
            Event::Began { thread, address } => {
                self.began.insert(thread, Began { address, time, slept: false });
            }
            Event::Slept { thread } => {
                self.began.entry(thread).and_modify(|began| began.slept = true);
                self.slept.insert(thread, time);
            }
            Event::Ended { process, thread, address, is_major } => {
                let began = self.began.remove(&thread).filter(|began| began.address == address);
                if !is_major && !began.as_ref().is_some_and(|began| began.slept) {
                    return;
                }
                // The begin of the first major fault is not known, and others may be lost: it is the time at
                // which the thread slept.
                let slept = self.slept.remove(&thread).unwrap_or(time);
                let began = began.map_or(slept, |began| began.time);
                let file = self.maps.get(&process).and_then(|maps| maps.file(address)).cloned();
                // Memory without a file is waited for if it was swapped out, which is a major fault.
                if !is_major && file.is_none() {
                    return;
                }
                let Some(image) = self.images.get_mut(&process).and_then(VecDeque::back_mut) else {
                    return;
                };
                let sum = image.files.entry(file).or_default();
                *sum = (sum.0 + 1, sum.1 + time.saturating_sub(began));
                image.times.push((began, time));
            }
            Event::Mapped { process, start, end, file } => {
                self.maps.entry(process).or_default().insert(start, end, file);
            }
            Event::Executed { process } => {
                self.maps.remove(&process);
                self.images.entry(process).or_default().push_back(Waits::default());
            }
            Event::Forked { process, parent } => {
                let maps = self.maps.get(&parent).cloned().unwrap_or_default();
                self.maps.insert(process, maps);
                self.images.entry(process).or_default().push_back(Waits::default());
            }
            Event::Gone { process } => {
                self.maps.remove(&process);
            }
            Event::Lost { records } => self.lost += records,
        }
    }

    /// Adds their waits to the images of a run.
    pub(super) fn fill(&mut self, images: &mut [Image]) {
        for image in images {
            let waits = self.images.get_mut(&image.pid).and_then(VecDeque::pop_front);
            image.pages = Some(waits.unwrap_or_default().finish());
        }
    }
}

impl Waits {
    fn finish(self) -> Pages {
        let mut files: Vec<FileWaits> = self
            .files
            .iter()
            .filter_map(|(file, (waits, ns))| {
                let path = file.as_deref()?.clone();
                Some(FileWaits { path, waits: *waits, seconds: seconds(*ns) })
            })
            .collect();
        files.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.path.cmp(&b.path)));
        Pages { waits: self.times.len() as u64, seconds: seconds(covered(self.times)), files }
    }
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// Returns the time in which at least one of the intervals runs.
fn covered(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let mut last = 0;
    let mut sum = 0;
    for (began, ended) in times {
        sum += ended.saturating_sub(began.max(last));
        last = last.max(ended);
    }
    sum
}

/// Ranges of addresses by their starts.
#[derive(Clone, Debug, Default)]
struct Maps(BTreeMap<u64, Mapping>);

/// The end of a range and the file that it is of, if it is of one.
#[derive(Clone, Debug)]
struct Mapping {
    end: u64,
    file: Option<Arc<BString>>,
}

impl Maps {
    /// Maps a range, which replaces what was there.
    fn insert(&mut self, start: u64, end: u64, file: Option<BString>) {
        let before = self.0.range(..start).next_back().map(|(start, _)| *start);
        let inside = self.0.range(start..end).map(|(start, _)| *start);
        for old in inside.chain(before).collect::<Vec<_>>() {
            let Some(mapping) = self.0.remove(&old) else { continue };
            if mapping.end > end {
                self.0.insert(end, mapping.clone());
            }
            if old < start {
                self.0.insert(old, Mapping { end: mapping.end.min(start), ..mapping });
            }
        }
        self.0.insert(start, Mapping { end, file: file.map(Arc::new) });
    }

    /// Returns the file at an address.
    fn file(&self, address: u64) -> Option<&Arc<BString>> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        mapping.file.as_ref().filter(|_| address < mapping.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_of(events: Vec<Event>) -> State {
        let mut state = State::default();
        let timed = events.into_iter().zip(1..).map(|(event, at)| Timed { time: at * 10, event });
        timed.for_each(|event| state.add(event));
        state
    }

    fn mapped(process: u32, file: &str) -> Event {
        Event::Mapped { process, start: 0, end: 100, file: Some(file.into()) }
    }

    #[test]
    fn a_wait_belongs_to_the_file_of_its_process_and_image() {
        let began = |thread, address| Event::Began { thread, address };
        let waited = |process, address| ended(process, address, true);
        let mut seen = waits_of(vec![
            Event::Executed { process: 1 },
            mapped(1, "/a"),
            Event::Forked { process: 2, parent: 1 },
            began(1, 5),
            began(2, 7),
            waited(1, 5),
            waited(2, 7),
            Event::Executed { process: 1 },
            mapped(1, "/b"),
            began(1, 5),
            waited(1, 5),
            // Their begins were lost.
            waited(1, 99),
            Event::Slept { thread: 1 },
            waited(1, 98),
            // Not mapped.
            waited(1, 100),
        ]);
        let mut images = [1, 2, 1].map(|pid| Image { pid, ..Image::default() });
        seen.fill(&mut images);
        let pages = |at: usize| images[at].pages.clone().unwrap();
        let file =
            |path: &str, waits, ns| FileWaits { path: path.into(), waits, seconds: seconds(ns) };
        let one =
            |path, ns| Pages { waits: 1, seconds: seconds(ns), files: vec![file(path, 1, ns)] };
        assert_eq!(pages(0), one("/a", 20));
        assert_eq!(pages(1), one("/a", 20));
        let last = Pages { waits: 4, seconds: seconds(20), files: vec![file("/b", 3, 20)] };
        assert_eq!(pages(2), last);
    }

    fn ended(process: u32, address: u64, is_major: bool) -> Event {
        Event::Ended { process, thread: process, address, is_major }
    }

    #[test]
    fn a_minor_fault_waits_if_its_thread_sleeps_for_a_page_of_a_file() {
        let fault = |address, sleeps: bool| {
            let slept = sleeps.then_some(Event::Slept { thread: 1 });
            let began = Event::Began { thread: 1, address };
            [Some(began), slept, Some(ended(1, address, false))].into_iter().flatten()
        };
        let begin = [Event::Executed { process: 1 }, mapped(1, "/a")];
        let faults = fault(5, false).chain(fault(6, true)).chain(fault(200, true));
        // A thread that sleeps after its fault.
        let after = [Event::Slept { thread: 1 }, ended(1, 5, false)];
        let mut seen = waits_of(begin.into_iter().chain(faults).chain(after).collect());
        let mut images = [Image { pid: 1, ..Image::default() }];
        seen.fill(&mut images);
        let files = vec![FileWaits { path: "/a".into(), waits: 1, seconds: seconds(20) }];
        assert_eq!(images[0].pages, Some(Pages { waits: 1, seconds: seconds(20), files }));
    }

    #[test]
    fn waits_at_the_same_time_count_once() {
        assert_eq!(covered(vec![(5, 9), (0, 4), (1, 3), (6, 12)]), 4 + 7);
    }

    #[test]
    fn a_mapping_replaces_the_middle_of_another() {
        let mut maps = Maps::default();
        maps.insert(10, 50, Some("/whole".into()));
        maps.insert(20, 30, Some("/middle".into()));
        maps.insert(28, 40, None);
        let file = |at| maps.file(at).map(|file| file.to_string());
        let found = [9, 10, 19, 20, 27, 28, 39, 40, 49, 50].map(file);
        let whole = || Some("/whole".to_owned());
        let middle = || Some("/middle".to_owned());
        assert_eq!(
            found,
            [None, whole(), whole(), middle(), middle(), None, None, whole(), whole(), None]
        );
    }
}
