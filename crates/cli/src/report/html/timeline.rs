//! The start in time: a bar for each run, on one scale, and the libraries below.

use std::time::Duration;

use becalm_core::record::phases::{ObjectPhases, Phases};
use becalm_lib::escape::shown;
use becalm_lib::json;
use becalm_lib::report::start::{Observed, Relocation, Snapshot};
use becalm_lib::trace::report::{ClassLookups, FileWaits};
use becalm_lib::words::{counted, grouped, milliseconds, seconds};

use crate::report::html::format::percent;

/// Files of waits for pages, and modules, that are listed.
const FILES: usize = 20;
/// Libraries that have a row.
const LIBRARIES: usize = 15;
/// Share of the scale from which on a part has its name in the bar, in per cent.
const NAMED: f64 = 9.0;
/// The style of what no part of the loader explains.
const REST: &str = "loader";
/// Marks of the scale.
const MARKS: u64 = 4;

/// The bars and the libraries.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) lanes: Vec<Lane>,
    /// The marks of the scale, in milliseconds.
    pub(crate) scale: Vec<String>,
    pub(crate) libraries: Option<Libraries>,
}

/// The timeline of one program.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) id: &'static str,
    pub(crate) heading: &'static str,
    /// The reason why there are no times.
    pub(crate) why_not: Option<String>,
    pub(crate) command: String,
    /// Date, machine and becalm's version.
    pub(crate) made: Option<String>,
    pub(crate) total: String,
    /// The waits for pages in one line; empty if there are none.
    pub(crate) waited: String,
    /// Files for whose pages the start waited: path, waits and milliseconds.
    pub(crate) files: Vec<[String; 3]>,
    pub(crate) more_files: usize,
    /// The page faults before the entry point; empty if they are not known.
    pub(crate) faults: String,
    pub(crate) parts: Vec<Part>,
    /// Class, lookups, misses and repeated lookups after the entry point.
    pub(crate) classes: Vec<[String; 4]>,
    /// Packages that were imported: name, time and share of the program's time.
    pub(crate) modules: Vec<[String; 3]>,
    pub(crate) notes: Vec<String>,
}

/// A part of the timeline.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) style: &'static str,
    pub(crate) title: String,
    /// The name in the bar; empty if there is no room.
    pub(crate) label: &'static str,
    pub(crate) ms: String,
    /// Share of the longest timeline, in per cent.
    pub(crate) width: String,
    /// Share of its own timeline, in per cent.
    pub(crate) share: String,
}

/// The loader's work by library.
#[derive(Debug)]
pub(crate) struct Libraries {
    pub(crate) rows: Vec<Library>,
    /// The libraries without a row: their number and time.
    pub(crate) others: Option<(String, String)>,
    /// The heading of the times of the second run.
    pub(crate) other: Option<&'static str>,
}

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// Search, relocation and constructors: style, and share of the largest library in per cent.
    pub(crate) parts: [(&'static str, String); 3],
    pub(crate) ms: [String; 4],
    pub(crate) share: String,
    /// The time in the second run.
    pub(crate) other: String,
}

/// Makes the timelines of a report: of its programs, each with the id and the heading, and of the run with an
/// index.
pub(crate) fn timeline<'a>(
    sides: impl Iterator<Item = (&'static str, &'static str, &'a Snapshot)>,
    indexed: Option<&Result<Observed, String>>,
) -> Timeline {
    let run = |(id, heading, side): (_, _, &'a Snapshot)| {
        (id, heading, Some(side), side.observed.as_ref().map_err(Clone::clone))
    };
    let mut runs: Vec<_> = sides.map(run).collect();
    if let Some(indexed) = indexed {
        runs.push(("indexed", "With an index", None, indexed.as_ref().map_err(Clone::clone)));
    }
    let longest =
        runs.iter().filter_map(|run| run.3.as_ref().ok()).map(|seen| seen.whole_ns()).max();
    let longest = longest.unwrap_or(0);
    let lanes = runs.iter().map(|(id, heading, side, seen)| match seen {
        Ok(seen) => Lane { id, heading, ..Lane::of(seen, *side, longest) },
        Err(why) => Lane { id, heading, ..Lane::without(why, *side) },
    });
    let mut seen = runs.iter().filter_map(|run| Some((run.1, *run.3.as_ref().ok()?)));
    let (first, other) = (seen.next(), seen.next());
    let mark = |at| milliseconds(longest * at / MARKS);
    Timeline {
        lanes: lanes.collect(),
        scale: if longest > 0 { (0..=MARKS).map(mark).collect() } else { Vec::new() },
        libraries: first.and_then(|(_, first)| Libraries::of(first, other)),
    }
}

impl Lane {
    fn of(seen: &Observed, side: Option<&Snapshot>, longest: u64) -> Self {
        let mut notes = seen.notes.clone();
        if let (Some(false), Some(side)) = (seen.as_predicted, side) {
            notes.push(format!(
                "the run made {} failing opens and {} failing stats where {} and {} were predicted",
                grouped(seen.storm.missed_opens),
                grouped(seen.storm.missed_stats),
                grouped(side.storm.missed_opens),
                grouped(side.storm.missed_stats),
            ));
        }
        let files = seen.pages.as_ref().map_or(&[][..], |pages| &pages.files);
        let faults = seen.phases.as_ref().map(|phases| phases.page_faults).filter(|it| *it > 0);
        Self {
            waited: waited(seen).unwrap_or_default(),
            files: files.iter().take(FILES).map(file).collect(),
            more_files: files.len().saturating_sub(FILES),
            command: seen.command.clone(),
            made: seen.made.clone(),
            total: milliseconds(seen.whole_ns()),
            faults: faults
                .map(|faults| counted(faults, "page fault", "page faults"))
                .unwrap_or_default(),
            parts: parts(seen, longest),
            classes: seen.classes.iter().map(class).collect(),
            modules: seen.modules.iter().take(FILES).map(|it| module(it, seen)).collect(),
            notes,
            ..Self::default()
        }
    }

    fn without(why: &str, side: Option<&Snapshot>) -> Self {
        let counts = side.map(|side| {
            let objects = counted(side.storm.objects, "object", "objects");
            format!(
                "; predicted are {objects} and {}",
                counted(side.storm.misses(), "miss", "misses")
            )
        });
        Self { why_not: Some(format!("{why}{}", counts.unwrap_or_default())), ..Self::default() }
    }
}

/// Returns the parts of a run in the order of the start. Each is measured by itself, so the loader's may be a
/// little more than its time.
fn parts(seen: &Observed, longest: u64) -> Vec<Part> {
    let phase = |of: fn(&Phases) -> u64| seen.phases.as_ref().map(of);
    let search_ns = phase(|it| it.search_ns).map(|ns| ns.saturating_sub(seen.storm_ns));
    let relocation = seen.relocation.unwrap_or_default();
    let relocation_ns = phase(|it| it.relocation_ns).or(seen.relocation.map(|it| it.ns));
    let symbols = symbols(relocation);
    let of_loader = [
        ("start", "start", "loader: its own start", phase(|it| it.start_ns)),
        ("storm", "misses", "loader: failing opens and stats", Some(seen.storm_ns)),
        ("search", "search", "loader: opening and mapping objects", search_ns),
        ("relocation", "relocation", &symbols, relocation_ns),
        (
            "constructors",
            "constructors",
            "constructors of libraries",
            phase(|it| it.constructors_ns),
        ),
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
        let width = 100.0 * ns as f64 / longest.max(1) as f64;
        Some(Part {
            style,
            title: title.to_owned(),
            label: if width >= NAMED { label } else { "" },
            ms: match more {
                1.. if style == REST => format!("−{}", milliseconds(more)),
                _ => milliseconds(ns),
            },
            width: percent(ns, longest),
            share: percent(ns, seen.whole_ns()),
        })
    };
    [exec].into_iter().chain(of_loader).chain(others).filter_map(part).collect()
}

impl Libraries {
    /// Makes the rows of the libraries; `None` if the loader does not write about them.
    fn of(first: &Observed, other: Option<(&'static str, &Observed)>) -> Option<Self> {
        let phases = first.phases.as_ref()?;
        let most = phases.objects.first().map_or(0, ObjectPhases::ns);
        let others = other.and_then(|(_, seen)| seen.phases.as_ref());
        let of_other = |name: &str| {
            let object = others?.objects.iter().find(|object| object.name == name)?;
            Some(milliseconds(object.ns()))
        };
        let row = |object: &ObjectPhases| {
            let ObjectPhases { name, search_ns, relocation_ns, constructors_ns } = object;
            let parts = [
                ("search", *search_ns),
                ("relocation", *relocation_ns),
                ("constructors", *constructors_ns),
            ];
            Library {
                name: shown(name.as_bytes().into()),
                parts: parts.map(|(style, ns)| (style, percent(ns, most))),
                ms: [*search_ns, *relocation_ns, *constructors_ns, object.ns()].map(milliseconds),
                share: percent(object.ns(), phases.loader_ns),
                other: of_other(name).unwrap_or_else(|| "–".to_owned()),
            }
        };
        let rest = phases.objects.get(LIBRARIES..).unwrap_or_default();
        Some(Self {
            rows: phases.objects.iter().take(LIBRARIES).map(row).collect(),
            others: (!rest.is_empty()).then(|| {
                let ns = rest.iter().map(ObjectPhases::ns).sum();
                (counted(rest.len() as u64, "other object", "other objects"), milliseconds(ns))
            }),
            other: other.filter(|_| others.is_some()).map(|(heading, _)| heading),
        })
    }
}

/// Describes the waits for pages: "first start 0.24 s: 0.18 s waiting for 46 pages".
fn waited(seen: &Observed) -> Option<String> {
    let pages = seen.pages.as_ref().filter(|pages| pages.waits > 0)?;
    let total = Duration::from_nanos(seen.watched_ns).as_secs_f64();
    let waits = counted(pages.waits, "page", "pages");
    Some(format!("first start {}: {} waiting for {waits}", seconds(total), seconds(pages.seconds)))
}

fn file(file: &FileWaits) -> [String; 3] {
    let ms = milliseconds((file.seconds * 1e9) as u64);
    [shown(file.path.as_ref()), grouped(file.waits), ms]
}

/// Returns the title of relocation: the numbers of symbols looked up and bound.
fn symbols(relocation: Relocation) -> String {
    let lookups = counted(relocation.lookups, "symbol looked up", "symbols looked up");
    match relocation.bound {
        0 => format!("loader: relocation, {lookups}"),
        bound => {
            let bound = grouped(bound.into());
            format!("loader: relocation, {lookups}, {bound} bound from the index")
        }
    }
}

fn class(class: &ClassLookups) -> [String; 4] {
    let counts = [class.lookups(), class.missed.total(), class.repeated.count].map(grouped);
    let [lookups, misses, repeated] = counts;
    [json::name(&class.class), lookups, misses, repeated]
}

fn module((name, ns): &(String, u64), seen: &Observed) -> [String; 3] {
    [name.clone(), milliseconds(*ns), percent(*ns, seen.program_ns)]
}
