//! Makes the parts of the report from the observations of the host and the model's prediction.

use std::time::Duration;

use becalm_core::cost::SearchCost;
use becalm_core::observe::offenders::Offenders;
use becalm_core::observe::tally::ClassTally;
use becalm_core::observe::{Class, Dlopens, SyscallRow};
use becalm_core::probe::Probe;
use becalm_host::trace::{self, Calibration, Image, PageWaits};
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::beside::Beside;
use crate::check::Program;
use crate::trace::report::{
    ClassLookups, Dlopen, FileWaits, MissedName, MissedPath, Needed, Overhead, Pages, Repeated,
    RepeatedPath, Seen, Share,
};

impl From<Calibration> for Overhead {
    fn from(measured: Calibration) -> Self {
        let Calibration { call_ns, cycle_ns, samples, .. } = measured;
        Self { call_ns, cycle_ns, samples }
    }
}

impl From<PageWaits> for Pages {
    fn from(PageWaits { waits, ns, files }: PageWaits) -> Self {
        let seconds = |ns| Duration::from_nanos(ns).as_secs_f64();
        let files = files.into_iter().map(|trace::FileWaits { path, waits, ns }| FileWaits {
            path,
            waits,
            seconds: seconds(ns),
        });
        Self { waits, seconds: seconds(ns), files: files.collect() }
    }
}

impl From<trace::Share> for Share {
    fn from(share: trace::Share) -> Self {
        Self {
            net_ns: share.net_ns(),
            wall_ns: share.wall_ns,
            tracer_ns: share.tracer_ns,
            calls: share.histogram.iter().map(|row| row.count).sum(),
            hits: share.hits,
            missed: share.missed,
            syscalls: share.histogram,
        }
    }
}

/// Merges the calls of both shares into one list.
fn whole(shares: [&Share; 2]) -> Vec<SyscallRow> {
    let mut rows: FxHashMap<&str, SyscallRow> = FxHashMap::default();
    for row in shares.into_iter().flat_map(|share| &share.syscalls) {
        let sum = rows.entry(&row.name).or_default();
        sum.name.clone_from(&row.name);
        sum.count += row.count;
        sum.errors += row.errors;
        sum.total_ns += row.total_ns;
        sum.max_ns = sum.max_ns.max(row.max_ns);
    }
    let mut rows: Vec<SyscallRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    rows
}

impl ClassLookups {
    fn of((class, tally): (Class, ClassTally)) -> Self {
        let ClassTally { hits, missed, dirs, names, repeated, .. } = tally;
        let paths = repeated.paths.into_iter();
        Self {
            class,
            hits,
            missed,
            dirs: dirs.into_iter().map(|(path, misses)| MissedPath { path, misses }).collect(),
            names: names.into_iter().map(|(name, misses)| MissedName { name, misses }).collect(),
            repeated: Repeated {
                count: repeated.count,
                ns: repeated.ns,
                paths: paths.map(|(path, times)| RepeatedPath { path, times }).collect(),
            },
        }
    }
}

impl Dlopen {
    fn of(dlopens: Dlopens, classes: &[ClassLookups], dropped: u64) -> Self {
        let found_misses = dlopens.found_misses();
        let Dlopens { probes, worst, not_found } = dlopens;
        let class = classes.iter().find(|class| class.class == Class::Dlopen);
        let needed = worst.needed.into_iter().map(|misses| {
            let found = !not_found.contains(&misses.name);
            Needed { misses, found }
        });
        Self {
            missed: class.map(|class| class.missed).unwrap_or_default(),
            hits: class.map_or(0, |class| class.hits),
            found_misses,
            directories: worst.directories,
            needed: needed.collect(),
            objects: worst.objects,
            probes,
            dropped,
        }
    }
}

/// The observation of the loader of an image.
#[derive(Debug)]
pub(super) struct Loader {
    /// Its probes, attributed.
    pub probes: Vec<Probe>,
    /// Their counts.
    pub storm: SearchCost,
    /// Time of its misses.
    pub storm_ns: u64,
    /// The causes of the misses.
    pub worst: Offenders,
    /// Its search after the entry point.
    pub dlopens: Dlopens,
    /// Prediction and observation side by side.
    pub beside: Option<Beside>,
}

impl Seen {
    /// Joins the observations of an image with its prediction.
    pub(super) fn of(
        image: Image,
        path: BString,
        program: Result<Program, String>,
        loader: Loader,
    ) -> Self {
        let (checked, no_prediction) = match program {
            Ok(program) => (Some(Box::new(program)), None),
            Err(why) => (None, Some(why)),
        };
        let of_check = checked.as_deref();
        let classes: Vec<_> = image.classes.into_iter().map(ClassLookups::of).collect();
        let shares = [image.loader, image.program].map(Share::from);
        let syscalls = whole([&shares[0], &shares[1]]);
        let [of_loader, of_program] = shares;
        let text = |text: &BString| text.to_str_lossy().into_owned();
        let variables = image.environment.iter();
        Self {
            path,
            file: image.path,
            exec_path: image.exec_path,
            pid: image.pid,
            forked: image.forked,
            interpreter: image.interpreter,
            machine: of_check.map(|program| program.machine.to_owned()),
            libc: of_check.and_then(|program| program.libc).map(|libc| libc.to_string()),
            secure: image.secure,
            immutable: of_check.map(|program| program.immutable),
            reached_entry: image.reached_entry,
            storm: loader.storm,
            storm_ns: loader.storm_ns,
            loader: of_loader,
            program: of_program,
            syscalls,
            dlopen: Dlopen::of(loader.dlopens, &classes, image.dlopens_dropped),
            classes,
            worst: loader.worst,
            calmed_by: of_check.and_then(|program| program.calmed_by.clone()),
            indexed_bindings: of_check.and_then(|program| program.bindings),
            pages: image.pages.map(Pages::from),
            relocations: None,
            prediction: loader.beside,
            no_prediction,
            initialisers: image.initialisers,
            dropped: image.dropped,
            environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
            probes: loader.probes,
            began_ns: image.began_ns,
            timeline: image.timeline,
            checked,
            files: Vec::new(),
        }
    }
}
