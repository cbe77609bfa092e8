//! Counts the calls of one running image, by phase.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use becalm_core::fs::Errno;
use becalm_core::observe::classes::{Caller, class_of};
use becalm_core::observe::tally::ClassTallies;
use becalm_core::observe::{Class, Kind, Lookup, SyscallRow};
use becalm_core::path::name;
use bstr::{BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};

use super::calibrate::nanos;
use super::exec::{Breakpoint, Program};
use super::sys::Pid;
use super::{Image, MAX_LOOKUPS, Options, Overhead, Phase, Share, TimedLookup};

/// A running image and its counts.
#[derive(Debug)]
pub(super) struct Counting {
    /// The image as known so far.
    pub(super) image: Image,
    /// The phase that the image is in.
    pub(super) phase: Phase,
    /// The breakpoint at its entry point, until it is hit.
    pub(super) breakpoint: Option<Breakpoint>,
    pub(super) began: Instant,
    entered: Option<Instant>,
    ended: Option<Instant>,
    program: Arc<Program>,
    loader_is_libc: bool,
    rows: [FxHashMap<Cow<'static, str>, SyscallRow>; 2],
    classes: ClassTallies,
    opened: FxHashSet<BString>,
    keeps_opened: bool,
    keeps_timeline: bool,
}

/// A call that has begun.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: Cow<'static, str>,
    /// The index of its image.
    pub(super) image: usize,
    /// The phase in which it began.
    pub(super) phase: Phase,
    /// The lookup, if the call looks for a file.
    pub(super) lookup: Option<Lookup>,
    /// The tracer's cost for it.
    pub(super) cost: Overhead,
    pub(super) began: Instant,
}

impl Counting {
    /// Creates the counts of an image that has just started in a process.
    pub(super) fn new(pid: Pid, program: Arc<Program>, options: &Options) -> Counting {
        // In musl the loader is the C library itself, so its code also runs on behalf of the
        // program.
        let interpreter = program.image.interpreter.as_ref();
        let loader_is_libc = interpreter.is_some_and(|path| name(path).contains_str("musl"));
        Counting {
            phase: if program.entry.is_some() { Phase::Loader } else { Phase::Program },
            breakpoint: None,
            began: Instant::now(),
            entered: None,
            ended: None,
            loader_is_libc,
            rows: Default::default(),
            classes: ClassTallies::default(),
            opened: FxHashSet::default(),
            keeps_opened: options.opened,
            keeps_timeline: options.timeline,
            image: Image {
                pid: pid.unsigned_abs(),
                reached_entry: program.entry.is_none(),
                ..program.image.clone()
            },
            program,
        }
    }

    /// Creates the counts of a copy of this image that a fork started in another process.
    pub(super) fn forked(&self, pid: Pid, options: &Options) -> Counting {
        let mut forked = Counting::new(pid, Arc::clone(&self.program), options);
        forked.phase = Phase::Program;
        (forked.image.forked, forked.image.reached_entry) = (true, true);
        forked
    }

    /// Adds time for which the tracer delayed the image.
    pub(super) fn delayed(&mut self, ns: u64) {
        self.share(self.phase).tracer_ns += ns;
    }

    fn share(&mut self, phase: Phase) -> &mut Share {
        match phase {
            Phase::Loader => &mut self.image.loader,
            Phase::Program => &mut self.image.program,
        }
    }

    /// Returns true if code at `address` belongs to the loader; see [`Lookup::by_loader`].
    pub(super) fn is_loader(&self, address: u64) -> bool {
        if self.loader_is_libc {
            return self.phase == Phase::Loader;
        }
        self.program.loader.contains(&address)
    }

    /// Records that the entry point was reached.
    pub(super) fn enter(&mut self) {
        self.phase = Phase::Program;
        self.entered = Some(Instant::now());
        self.image.reached_entry = true;
    }

    /// Records the end of the image.
    pub(super) fn end(&mut self) {
        // An earlier end counts: the next `execve`, or the stop at the entry point.
        self.ended.get_or_insert_with(Instant::now);
    }

    /// Moves a later end to a moment after which the image did nothing.
    pub(super) fn ended_before(&mut self, moment: Instant) {
        self.ended = self.ended.map(|ended| ended.min(moment.max(self.began)));
    }

    /// Counts a call of a thread that has ended. A lookup of the loader is kept, a lookup of the program is
    /// classified.
    pub(super) fn count(&mut self, task: Pid, call: Call, errno: Option<Errno>, ended: Instant) {
        let ns = nanos(call.began, ended).saturating_sub(call.cost.call_ns);
        // Most names are known after a few calls, and `entry` would move the name on each of them.
        let rows = &mut self.rows[call.phase as usize];
        let row = match rows.get_mut(&call.name) {
            Some(row) => row,
            None => rows.entry(call.name).or_default(),
        };
        row.count += 1;
        row.errors += u64::from(errno.is_some());
        row.total_ns += ns;
        row.max_ns = row.max_ns.max(ns);
        let at_ns = self.net_ns(call.began);
        let share = self.share(call.phase);
        share.tracer_ns += call.cost.cycle_ns;
        let Some(lookup) = call.lookup.map(|lookup| Lookup { errno, ns, ..lookup }) else { return };
        share.hits += u64::from(!lookup.is_miss());
        share.missed.add(&lookup);
        let class = (call.phase == Phase::Program).then(|| self.class_of(&lookup));
        if self.keeps_timeline && self.image.timeline.len() < MAX_LOOKUPS {
            let task = task.unsigned_abs();
            self.image.timeline.push(TimedLookup { task, at_ns, class, lookup: lookup.clone() });
        }
        match call.phase {
            Phase::Program => self.class(class.unwrap_or(Class::Other), lookup),
            Phase::Loader if !lookup.by_loader => self.image.initialisers += 1,
            Phase::Loader if self.image.lookups.len() < MAX_LOOKUPS => {
                self.image.lookups.push(lookup);
            }
            Phase::Loader => self.image.dropped += 1,
        }
    }

    /// Returns a moment in the image's time, without the tracer's part until then.
    fn net_ns(&self, at: Instant) -> u64 {
        let tracer_ns = self.image.loader.tracer_ns + self.image.program.tracer_ns;
        nanos(self.began, at).saturating_sub(tracer_ns)
    }

    fn class_of(&self, lookup: &Lookup) -> Class {
        let program = name(&self.image.path);
        let caller = Caller { program, variables: &self.image.environment };
        class_of(lookup, caller)
    }

    fn class(&mut self, class: Class, lookup: Lookup) {
        self.classes.add(class, &lookup);
        self.add_opened(&lookup);
        match class {
            Class::Dlopen if self.image.dlopens.len() < MAX_LOOKUPS => {
                self.image.dlopens.push(lookup);
            }
            Class::Dlopen => self.image.dlopens_dropped += 1,
            _ => {}
        }
    }

    /// Keeps the path of a file that the program reads. Libraries that it opens are mapped.
    fn add_opened(&mut self, lookup: &Lookup) {
        let is_opened = lookup.kind == Kind::Open && !lookup.is_miss() && !lookup.by_loader;
        let has_room = self.keeps_opened && self.opened.len() < MAX_LOOKUPS;
        let mut is_new =
            |path: &BString| path.starts_with(b"/") && self.opened.insert(path.clone());
        if is_opened && has_room && is_new(&lookup.path) {
            self.image.opened.push(lookup.path.clone());
        }
    }

    /// Completes the image and returns it. `first` is the time at which the first image began.
    pub(super) fn finish(mut self, first: Option<Instant>) -> Image {
        self.end();
        self.image.began_ns = first.map_or(0, |first| nanos(first, self.began));
        let ended = self.ended.unwrap_or(self.began);
        let [loader, program] = self.rows;
        let had_loader = self.entered.is_some() || self.phase == Phase::Loader;
        // If the entry point was never reached, the whole time is the loader's.
        let middle = if had_loader { self.entered.unwrap_or(ended) } else { self.began };
        fill(&mut self.image.loader, loader, nanos(self.began, middle));
        fill(&mut self.image.program, program, nanos(middle, ended));
        self.image.classes = self.classes.finish();
        self.image
    }
}

fn fill(share: &mut Share, rows: FxHashMap<Cow<'static, str>, SyscallRow>, wall_ns: u64) {
    let named = |(name, row): (Cow<'static, str>, SyscallRow)| SyscallRow {
        name: name.into_owned(),
        ..row
    };
    let mut rows: Vec<SyscallRow> = rows.into_iter().map(named).collect();
    // Calls with equal times are sorted by name, so that the order does not depend on the hash map.
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    share.calls = rows.iter().map(|row| row.count).sum();
    share.syscalls = rows;
    share.wall_ns = wall_ns;
    // The cost of a call is a median, so the sum may exceed the measured time.
    share.tracer_ns = share.tracer_ns.min(wall_ns);
    share.net_ns = wall_ns - share.tracer_ns;
}
