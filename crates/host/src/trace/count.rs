//! One image while it runs: its two shares, counted call by call.

use std::borrow::Cow;
use std::time::Instant;

use becalm_core::observe::classes::{Caller, class_of};
use becalm_core::observe::tally::ClassTallies;
use becalm_core::observe::{Class, Lookup, SyscallRow};
use bstr::{BStr, ByteSlice};
use rustc_hash::FxHashMap;

use super::calibrate::nanos;
use super::exec::Program;
use super::sys::Pid;
use super::{Image, Phase, Share};

/// One image while it runs.
#[derive(Debug)]
pub(super) struct Counting {
    image: Image,
    /// Which side of the entry point it is on.
    pub(super) phase: Phase,
    began: Instant,
    entered: Option<Instant>,
    ended: Option<Instant>,
    loader: std::ops::Range<u64>,
    loader_is_libc: bool,
    rows: [FxHashMap<Cow<'static, str>, SyscallRow>; 2],
    classes: ClassTallies,
    max_lookups: usize,
}

/// A call that is over.
#[derive(Debug)]
pub(super) struct Call {
    /// Its name.
    pub(super) name: Cow<'static, str>,
    /// The side it began on.
    pub(super) phase: Phase,
    /// True where it failed.
    pub(super) failed: bool,
    /// How long it took, the tracer's cost subtracted.
    pub(super) ns: u64,
    /// The tracer's cost, the whole of it.
    pub(super) tracer_ns: u64,
    /// What it looked for, if it did.
    pub(super) lookup: Option<Lookup>,
}

impl Counting {
    /// An image that has just begun in a process.
    pub(super) fn new(pid: Pid, program: Program, max_lookups: usize) -> Counting {
        let name = |path: &BStr| path.rsplit_str("/").next().unwrap_or_default().to_owned();
        let interpreter = program.interpreter.as_ref();
        let loader_is_libc =
            interpreter.is_some_and(|path| name(path.as_bstr()).contains_str("musl"));
        Counting {
            phase: if program.entry.is_some() { Phase::Loader } else { Phase::Program },
            began: Instant::now(),
            entered: None,
            ended: None,
            loader: program.loader,
            loader_is_libc,
            rows: Default::default(),
            classes: ClassTallies::default(),
            max_lookups,
            image: Image {
                path: program.path,
                exec_path: program.exec_path,
                pid: pid.unsigned_abs(),
                reached_entry: program.entry.is_none(),
                interpreter: program.interpreter,
                environment: program.environment,
                secure: program.secure,
                ..Image::default()
            },
        }
    }

    /// A copy of this image that a fork began in another process.
    pub(super) fn forked(&self, pid: Pid) -> Counting {
        let image = Image {
            path: self.image.path.clone(),
            exec_path: self.image.exec_path.clone(),
            pid: pid.unsigned_abs(),
            forked: true,
            reached_entry: true,
            interpreter: self.image.interpreter.clone(),
            environment: self.image.environment.clone(),
            secure: self.image.secure,
            ..Image::default()
        };
        Counting {
            image,
            phase: Phase::Program,
            began: Instant::now(),
            entered: None,
            ended: None,
            loader: self.loader.clone(),
            loader_is_libc: self.loader_is_libc,
            rows: Default::default(),
            classes: ClassTallies::default(),
            max_lookups: self.max_lookups,
        }
    }

    /// What is known of the image so far.
    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The tracer kept the image waiting for this long.
    pub(super) fn delayed(&mut self, ns: u64) {
        self.share().tracer_ns += ns;
    }

    /// The share that the image is in.
    fn share(&mut self) -> &mut Share {
        match self.phase {
            Phase::Loader => &mut self.image.loader,
            Phase::Program => &mut self.image.program,
        }
    }

    /// True where code at `address` is the loader's; see [`Lookup::by_loader`].
    pub(super) fn is_loader(&self, address: u64) -> bool {
        if self.loader_is_libc {
            return self.phase == Phase::Loader;
        }
        self.loader.contains(&address)
    }

    /// The entry point is reached.
    pub(super) fn enter(&mut self) {
        self.phase = Phase::Program;
        self.entered = Some(Instant::now());
        self.image.reached_entry = true;
    }

    /// The image is over.
    pub(super) fn end(&mut self) {
        self.ended.get_or_insert_with(Instant::now);
    }

    /// Counts a call; a lookup is kept or classed.
    pub(super) fn count(&mut self, call: Call) {
        let rows = &mut self.rows[call.phase as usize];
        let row = match rows.get_mut(&call.name) {
            Some(row) => row,
            None => rows.entry(call.name).or_default(),
        };
        row.count += 1;
        row.errors += u64::from(call.failed);
        row.total_ns += call.ns;
        row.max_ns = row.max_ns.max(call.ns);
        let share = match call.phase {
            Phase::Loader => &mut self.image.loader,
            Phase::Program => &mut self.image.program,
        };
        share.tracer_ns += call.tracer_ns;
        let Some(lookup) = call.lookup else { return };
        share.hits += u64::from(!lookup.is_miss());
        share.missed.add(&lookup);
        match call.phase {
            Phase::Program => self.class(lookup),
            Phase::Loader if !lookup.by_loader => self.image.initialisers += 1,
            Phase::Loader if self.image.lookups.len() < self.max_lookups => {
                self.image.lookups.push(lookup);
            }
            Phase::Loader => self.image.dropped += 1,
        }
    }

    fn class(&mut self, lookup: Lookup) {
        let program = self.image.path.rsplit_str("/").next().unwrap_or_default();
        let caller = Caller { program: BStr::new(program), variables: &self.image.environment };
        let class = class_of(&lookup, caller);
        self.classes.add(class, &lookup);
        match class {
            Class::Dlopen if self.image.dlopens.len() < self.max_lookups => {
                self.image.dlopens.push(lookup);
            }
            Class::Dlopen => self.image.dlopens_dropped += 1,
            _ => {}
        }
    }

    /// The finished image.
    pub(super) fn finish(mut self) -> Image {
        self.end();
        let ended = self.ended.unwrap_or(self.began);
        let [loader, program] = self.rows;
        let had_loader = self.entered.is_some() || self.phase == Phase::Loader;
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
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    share.histogram = rows;
    share.wall_ns = wall_ns;
    share.tracer_ns = share.tracer_ns.min(wall_ns);
}
