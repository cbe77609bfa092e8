//! Makes the parts of the report from the observations of the host and the model's prediction.

use becalm_core::observe::tally::ClassLookups;
use becalm_core::observe::{Attributed, Class, Dlopens, Lookup, SyscallRow};
use becalm_host::trace::{Image, Share};
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::trace::report::{Dlopen, Needed, Seen};

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

impl Seen {
    /// Returns the observations of an image, without those that need a prediction.
    pub(super) fn of(image: Image, path: BString, observed: Attributed, dlopens: Dlopens) -> Self {
        let storm_ns = storm_ns(&image);
        let text = |text: &BString| text.to_str_lossy().into_owned();
        let variables = image.environment.iter();
        Self {
            path,
            file: image.path,
            exec_path: image.exec_path,
            pid: image.pid,
            forked: image.forked,
            interpreter: image.interpreter,
            secure: image.secure,
            reached_entry: image.reached_entry,
            storm: observed.storm,
            storm_ns,
            syscalls: whole([&image.loader, &image.program]),
            loader: image.loader,
            program: image.program,
            dlopen: Dlopen::of(dlopens, &image.classes, image.dlopens_dropped),
            classes: image.classes,
            pages: image.pages,
            initialisers: image.initialisers,
            dropped: image.dropped,
            environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
            probes: observed.probes,
            began_ns: image.began_ns,
            timeline: image.timeline,
            ..Self::default()
        }
    }
}

/// Returns the time of the loader's failed opens and stats in nanoseconds.
fn storm_ns(image: &Image) -> u64 {
    // Dropped lookups are only in the sum.
    if image.dropped > 0 {
        return image.loader.missed.ns;
    }
    let of_storm =
        |lookup: &&Lookup| lookup.by_loader && lookup.is_miss() && lookup.attempt().is_some();
    image.lookups.iter().filter(of_storm).map(|lookup| lookup.ns).sum()
}
