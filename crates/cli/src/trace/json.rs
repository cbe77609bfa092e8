//! `becalm/trace/1`: the run as one JSON object on one line. Byte strings become text
//! lossily.

use std::collections::BTreeMap;

use becalm_core::cost::{Misses, SearchCost};
use becalm_core::observe::tally::{Missed, Repeated};
use becalm_core::observe::{Class, DlopenProbe, Dlopens, SyscallRow};
use becalm_core::probe::Probe;
use becalm_host::trace::{Exit, Image, Share};
use becalm_lib::beside::Beside;
use becalm_lib::json::{as_json, lossy, lossy_option};
use becalm_lib::trace::report::{Report, Seen};
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::trace::histogram;
use becalm_lib::loaded_index::IndexedBindings;

const SCHEMA: &str = "becalm/trace/1";

/// Directories, needed strings and objects that are named, and directories of a class.
const NAMED: usize = 50;

#[derive(Serialize)]
struct ReportJson<'a> {
    schema: &'static str,
    command: Vec<String>,
    images: Vec<ImageJson<'a>>,
    exit: Option<ExitJson>,
    overhead: Option<OverheadJson>,
    all_syscalls: bool,
    opens_alone: bool,
    notes: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum ExitJson {
    Code(u8),
    Signal(i32),
}

#[derive(Serialize)]
struct OverheadJson {
    call_ns: u64,
    cycle_ns: u64,
    samples: u32,
}

#[derive(Serialize)]
struct ImageJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    #[serde(serialize_with = "lossy")]
    file: &'a BString,
    #[serde(serialize_with = "lossy")]
    #[serde(rename = "asked")]
    exec_path: &'a BString,
    pid: u32,
    forked: bool,
    #[serde(serialize_with = "lossy_option")]
    interpreter: &'a Option<BString>,
    machine: Option<&'static str>,
    libc: Option<String>,
    secure: bool,
    immutable: Option<bool>,
    reached_entry: bool,
    storm: SearchCost,
    storm_ns: u64,
    loader: ShareJson,
    program: ShareJson,
    syscalls: Vec<RowJson>,
    classes: Vec<ClassJson>,
    worst: WorstJson,
    dlopen: DlopenJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calmed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexed_bindings: Option<IndexedBindings>,
    prediction: Option<&'a Beside>,
    no_prediction: Option<&'a String>,
    initialisers: u64,
    dropped: u64,
    environment: BTreeMap<String, String>,
    probes: &'a [Probe],
}

#[derive(Serialize)]
struct ShareJson {
    net_ns: u64,
    wall_ns: u64,
    tracer_ns: u64,
    calls: u64,
    hits: u64,
    missed: MissedJson,
    syscalls: Vec<RowJson>,
}

#[derive(Serialize)]
struct MissedJson {
    opens: u64,
    stats: u64,
    others: u64,
    ns: u64,
}

#[derive(Serialize)]
struct RowJson {
    name: String,
    count: u64,
    errors: u64,
    total_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct ClassJson {
    class: Class,
    hits: u64,
    missed: MissedJson,
    dirs: Vec<DirJson>,
    names: Vec<NameJson>,
    repeated: RepeatedJson,
}

/// Misses of a file name.
#[derive(Serialize)]
struct NameJson {
    name: String,
    misses: u64,
}

/// Successful lookups that repeat an earlier one.
#[derive(Serialize)]
struct RepeatedJson {
    count: u64,
    ns: u64,
    paths: Vec<RepeatedPathJson>,
}

#[derive(Serialize)]
struct RepeatedPathJson {
    path: String,
    times: u64,
}

#[derive(Serialize)]
struct DirJson {
    path: String,
    misses: u64,
}

#[derive(Serialize)]
struct WorstJson {
    directories: Vec<OffenderJson>,
    needed: Vec<OffenderJson>,
    objects: Vec<OffenderJson>,
}

#[derive(Serialize)]
struct OffenderJson {
    name: String,
    opens: u64,
    stats: u64,
}

/// Searches of the loader after the entry point.
#[derive(Serialize)]
struct DlopenJson<'a> {
    missed: MissedJson,
    hits: u64,
    found_misses: u64,
    directories: Vec<OffenderJson>,
    needed: Vec<NeededJson>,
    objects: Vec<OffenderJson>,
    probes: &'a [DlopenProbe],
    dropped: u64,
}

#[derive(Serialize)]
struct NeededJson {
    #[serde(flatten)]
    misses: OffenderJson,
    found: bool,
}

/// The whole object, and a line end.
#[must_use]
pub(crate) fn report(report: &Report) -> Vec<u8> {
    let json = ReportJson {
        schema: SCHEMA,
        command: report.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        images: report.images.iter().map(image).collect(),
        exit: match report.exit {
            Exit::Code(code) => Some(ExitJson::Code(code)),
            Exit::Signal(signal) => Some(ExitJson::Signal(signal)),
            Exit::Running => None,
        },
        overhead: report.overhead.map(|overhead| OverheadJson {
            call_ns: overhead.call_ns,
            cycle_ns: overhead.cycle_ns,
            samples: overhead.samples,
        }),
        all_syscalls: report.all_syscalls,
        opens_alone: report.opens_alone,
        notes: &report.notes,
    };
    let mut text = as_json(&json);
    text.push(b'\n');
    text
}

fn image(seen: &Seen) -> ImageJson<'_> {
    let image = &seen.image;
    let program = seen.program.as_ref().ok();
    let whole = histogram::whole(image);
    ImageJson {
        path: &seen.path,
        file: &image.path,
        exec_path: &image.exec_path,
        pid: image.pid,
        forked: image.forked,
        interpreter: &image.interpreter,
        machine: program.map(|program| program.machine),
        libc: program.and_then(|program| program.libc).map(|libc| libc.to_string()),
        secure: image.secure,
        immutable: program.map(|program| program.immutable),
        reached_entry: image.reached_entry,
        storm: seen.storm,
        storm_ns: seen.storm_ns,
        loader: share(&image.loader),
        program: share(&image.program),
        syscalls: whole.iter().map(row).collect(),
        classes: classes(image),
        worst: WorstJson {
            directories: offenders(&seen.worst.directories),
            needed: offenders(&seen.worst.needed),
            objects: offenders(&seen.worst.objects),
        },
        dlopen: dlopen(seen),
        calmed_by: program.and_then(|program| program.calmed_by.as_ref()).map(text),
        indexed_bindings: program.and_then(|program| program.bindings),
        prediction: seen.beside.as_ref(),
        no_prediction: seen.program.as_ref().err(),
        initialisers: image.initialisers,
        dropped: image.dropped,
        environment: image
            .environment
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        probes: &seen.probes,
    }
}

fn share(share: &Share) -> ShareJson {
    ShareJson {
        net_ns: share.net_ns(),
        wall_ns: share.wall_ns,
        tracer_ns: share.tracer_ns,
        calls: histogram::calls(share),
        hits: share.hits,
        missed: missed(share.missed),
        syscalls: share.histogram.iter().map(row).collect(),
    }
}

fn row(row: &SyscallRow) -> RowJson {
    RowJson {
        name: row.name.clone(),
        count: row.count,
        errors: row.errors,
        total_ns: row.total_ns,
        max_ns: row.max_ns,
    }
}

fn missed(missed: Missed) -> MissedJson {
    MissedJson { opens: missed.opens, stats: missed.stats, others: missed.others, ns: missed.ns }
}

fn classes(image: &Image) -> Vec<ClassJson> {
    let class = |(class, tally): &(Class, becalm_core::observe::tally::ClassTally)| ClassJson {
        class: *class,
        hits: tally.hits,
        missed: missed(tally.missed),
        dirs: tally
            .dirs
            .iter()
            .take(NAMED)
            .map(|(path, misses)| DirJson { path: text(path), misses: *misses })
            .collect(),
        names: tally
            .names
            .iter()
            .take(NAMED)
            .map(|(name, misses)| NameJson { name: text(name), misses: *misses })
            .collect(),
        repeated: repeated(&tally.repeated),
    };
    image.classes.iter().map(class).collect()
}

fn repeated(repeated: &Repeated) -> RepeatedJson {
    let paths = repeated.paths.iter().take(NAMED);
    let path =
        |(path, times): &(BString, u64)| RepeatedPathJson { path: text(path), times: *times };
    RepeatedJson { count: repeated.count, ns: repeated.ns, paths: paths.map(path).collect() }
}

fn dlopen(seen: &Seen) -> DlopenJson<'_> {
    let Dlopens { probes, worst, not_found } = &seen.dlopens;
    let class = seen.image.classes.iter().find(|(class, _)| *class == Class::Dlopen);
    let tally = class.map(|(_, tally)| tally);
    let needed = worst
        .needed
        .iter()
        .take(NAMED)
        .map(|entry| NeededJson { misses: offender(entry), found: !not_found.contains(&entry.0) });
    DlopenJson {
        missed: missed(tally.map(|tally| tally.missed).unwrap_or_default()),
        hits: tally.map_or(0, |tally| tally.hits),
        found_misses: seen.dlopens.found_misses(),
        directories: offenders(&worst.directories),
        needed: needed.collect(),
        objects: offenders(&worst.objects),
        probes,
        dropped: seen.image.dlopens_dropped,
    }
}

fn offenders(worst: &[(BString, Misses)]) -> Vec<OffenderJson> {
    worst.iter().take(NAMED).map(offender).collect()
}

fn offender((name, misses): &(BString, Misses)) -> OffenderJson {
    OffenderJson { name: text(name), opens: misses.opens, stats: misses.stats }
}

fn text(bytes: &BString) -> String {
    bytes.to_str_lossy().into_owned()
}
