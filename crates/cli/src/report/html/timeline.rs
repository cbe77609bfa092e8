//! The start in time: a bar for each run, on one scale, and the libraries below.

use std::time::Duration;

use becalm_core::cost::SearchCost;
use becalm_core::record::phases::{ObjectPhases, Phases};
use becalm_host::trace::FileWaits;
use becalm_lib::relocations::Relocations;
use becalm_lib::report::start::{Observed, Snapshot};
use becalm_lib::words::{counted, grouped, milliseconds, seconds};

/// Files of waits for pages, and modules, that are listed.
pub(crate) const FILES: usize = 20;
/// Libraries that have a row.
pub(crate) const LIBRARIES: usize = 15;
/// Share of the scale from which on a part has its name in the bar, in per cent.
const NAMED: f64 = 9.0;
/// The style of what no part of the loader explains.
const REST: &str = "loader";
/// Marks of the scale.
const MARKS: u64 = 4;

/// The bars and the libraries.
#[derive(Debug)]
pub(crate) struct Timeline<'a> {
    /// The time of the longest run, in nanoseconds.
    pub(crate) longest: u64,
    pub(crate) lanes: Vec<Lane<'a>>,
    /// The marks of the scale, in milliseconds.
    pub(crate) scale: Vec<String>,
    pub(crate) libraries: Option<Libraries<'a>>,
}

/// The timeline of one program.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) id: &'static str,
    pub(crate) heading: &'static str,
    /// The predicted cost of the search, if it is the run of a snapshot.
    pub(crate) predicted: Option<&'a SearchCost>,
    /// The run, or the reason why there are no times.
    pub(crate) seen: &'a Result<Observed, String>,
    pub(crate) parts: Vec<Part>,
}

/// A part of the timeline.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) style: &'static str,
    pub(crate) title: String,
    /// The name in the bar, if there is room.
    pub(crate) label: Option<&'static str>,
    pub(crate) ns: u64,
    pub(crate) ms: String,
}

/// The loader's work by library.
#[derive(Debug)]
pub(crate) struct Libraries<'a> {
    pub(crate) phases: &'a Phases,
    /// The second run, with its heading.
    pub(crate) other: Option<(&'static str, &'a Phases)>,
}

/// Makes the timelines of a report: of its programs, each with the id and the heading, and of the run with an
/// index.
pub(crate) fn timeline<'a>(
    sides: impl Iterator<Item = (&'static str, &'static str, &'a Snapshot)>,
    indexed: Option<&'a Result<Observed, String>>,
) -> Timeline<'a> {
    let of_sides =
        sides.map(|(id, heading, side)| (id, heading, Some(&side.storm), &side.observed));
    let indexed = indexed.map(|indexed| ("indexed", "With an index", None, indexed));
    let runs: Vec<_> = of_sides.chain(indexed).collect();
    let seen = || runs.iter().filter_map(|run| Some((run.1, run.3.as_ref().ok()?)));
    let longest = seen().map(|(_, seen)| seen.whole_ns()).max().unwrap_or(0);
    let lane = |&(id, heading, predicted, seen): &(_, _, _, &'a Result<Observed, String>)| {
        let parts = seen.as_ref().map_or(Vec::new(), |seen| parts(seen, longest));
        Lane { id, heading, predicted, seen, parts }
    };
    let mark = |at| milliseconds(longest * at / MARKS);
    let mut phases = seen().map(|(heading, seen)| (heading, seen.phases.as_ref()));
    let (first, other) = (phases.next(), phases.next());
    Timeline {
        longest,
        lanes: runs.iter().map(lane).collect(),
        scale: if longest > 0 { (0..=MARKS).map(mark).collect() } else { Vec::new() },
        libraries: first.and_then(|(_, phases)| {
            let other = other.and_then(|(heading, other)| Some((heading, other?)));
            Some(Libraries { phases: phases?, other })
        }),
    }
}

/// Returns the parts of a run in the order of the start. Each is measured by itself, so the loader's may be a
/// little more than its time.
fn parts(seen: &Observed, longest: u64) -> Vec<Part> {
    let phase = |of: fn(&Phases) -> u64| seen.phases.as_ref().map(of);
    let search_ns = phase(|it| it.search_ns).map(|ns| ns.saturating_sub(seen.storm_ns));
    let relocations = seen.relocations.as_ref();
    let part_ns = relocations.and_then(|it| it.part_of(seen.loader_ns));
    let relocation_ns = phase(|it| it.relocation_ns).or(part_ns);
    let symbols = symbols(&relocations.cloned().unwrap_or_default());
    let constructors_ns = phase(|it| it.constructors_ns);
    let of_loader = [
        ("start", "start", "loader: its own start", phase(|it| it.start_ns)),
        ("storm", "misses", "loader: failing opens and stats", Some(seen.storm_ns)),
        ("search", "search", "loader: opening and mapping objects", search_ns),
        ("relocation", "relocation", &symbols, relocation_ns),
        ("constructors", "constructors", "constructors of libraries", constructors_ns),
    ];
    let known: u64 = of_loader.iter().filter_map(|part| part.3).sum();
    let (rest, more) = (seen.loader_ns.saturating_sub(known), known.saturating_sub(seen.loader_ns));
    let dlopen_ns = Some(seen.dlopen_ns).filter(|ns| *ns > 0);
    let program_ns = seen.program_ns.saturating_sub(seen.dlopen_ns);
    let to_end = match seen.until_idle {
        true => "program, from its entry point to its first idle moment",
        false => "program, from its entry point to its exit",
    };
    let exec = ("exec", "execve", "kernel: execve", phase(|it| it.exec_ns));
    let others = [
        (REST, "loader", "loader: not attributed", Some(rest)),
        ("dlopen", "dlopen", "dlopen: failing opens and stats", dlopen_ns),
        ("program", "program", to_end, Some(program_ns)),
    ];
    let part = |(style, label, title, ns): (_, _, &str, Option<u64>)| {
        let ns = ns?;
        let is_wide = 100.0 * ns as f64 / longest.max(1) as f64 >= NAMED;
        let ms = match more {
            1.. if style == REST => format!("−{}", milliseconds(more)),
            _ => milliseconds(ns),
        };
        Some(Part { style, title: title.to_owned(), label: is_wide.then_some(label), ns, ms })
    };
    [exec].into_iter().chain(of_loader).chain(others).filter_map(part).collect()
}

impl Libraries<'_> {
    /// Returns the time of the largest library.
    pub(crate) fn most(&self) -> u64 {
        self.phases.objects.first().map_or(0, ObjectPhases::ns)
    }

    /// Returns the time of a library in the second run.
    pub(crate) fn other_ms(&self, name: &str) -> String {
        let object = self.other.and_then(|(_, of)| of.objects.iter().find(|it| it.name == name));
        object.map_or_else(|| "–".to_owned(), |object| milliseconds(object.ns()))
    }

    /// Returns the libraries without a row: their number and time.
    pub(crate) fn rest(&self) -> Option<(String, String)> {
        let rest = self.phases.objects.get(LIBRARIES..).filter(|rest| !rest.is_empty())?;
        let ns = rest.iter().map(ObjectPhases::ns).sum();
        Some((counted(rest.len() as u64, "other object", "other objects"), milliseconds(ns)))
    }
}

/// Describes the waits for pages: "first start 0.24 s: 0.18 s waiting for 46 pages".
pub(crate) fn waited(seen: &Observed) -> Option<String> {
    let pages = seen.pages.as_ref().filter(|pages| pages.waits > 0)?;
    let total = Duration::from_nanos(seen.watched_ns).as_secs_f64();
    let waits = counted(pages.waits, "page", "pages");
    Some(format!("first start {}: {} waiting for {waits}", seconds(total), seconds(pages.seconds)))
}

/// Returns the files for whose pages the start waited.
pub(crate) fn files(seen: &Observed) -> &[FileWaits] {
    seen.pages.as_ref().map_or(&[], |pages| &pages.files)
}

/// Returns the title of relocation: the numbers of symbols looked up and bound.
fn symbols(relocations: &Relocations) -> String {
    let lookups = counted(relocations.lookups, "symbol looked up", "symbols looked up");
    match relocations.bindings.map_or(0, |it| it.bound) {
        0 => format!("loader: relocation, {lookups}"),
        bound => {
            let bound = grouped(bound.into());
            format!("loader: relocation, {lookups}, {bound} bound from the index")
        }
    }
}

/// Formats the time of the waits for a file.
pub(crate) fn waited_ms(file: &FileWaits) -> String {
    milliseconds((file.seconds * 1e9) as u64)
}
