//! What `becalm index` wrote: a summary, or one JSON object.

use std::io::{self, Write};
use std::path::Path;

use becalm_core::elf::machine_name;
use becalm_core::index::Index;
use becalm_core::index::bound::{BoundProgram, NotBound};
use becalm_core::index::build::Deferred;
use becalm_core::index::tls::StaticTls;
use becalm_host::index_store::MachineIndex;
use becalm_lib::escape::shown;
use becalm_lib::index::file::Whole;
use becalm_lib::json::{ErrorJson, as_json, errors, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::index::report::Report;
use crate::terminal::style::Look;

/// Programs named in the summary.
const NAMED: usize = 5;

#[derive(Serialize)]
struct IndexJson<'a> {
    schema: &'static str,
    #[serde(serialize_with = "lossy")]
    index: &'a BString,
    written: bool,
    machine: &'static str,
    stores: Vec<String>,
    objects: usize,
    kept: usize,
    edges: usize,
    bytes: usize,
    table_bytes: usize,
    directories: DirectoriesJson,
    #[serde(rename = "left")]
    deferred: Vec<LeftJson>,
    static_tls: Vec<StaticTlsJson<'a>>,
    bindings: BindingsJson<'a>,
    other_machines: Vec<OtherJson>,
    errors: Vec<ErrorJson<'a>>,
}

#[derive(Serialize)]
struct DirectoriesJson {
    watched: usize,
    snapshotted: usize,
    not_snapshotted: Vec<String>,
}

#[derive(Serialize)]
struct LeftJson {
    reason: &'static str,
    questions: usize,
}

#[derive(Serialize)]
struct StaticTlsJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    optional_static_tls: Option<u64>,
}

#[derive(Serialize)]
struct BindingsJson<'a> {
    programs: usize,
    relocations: u64,
    bound: u64,
    bytes: usize,
    not_bound: Vec<NotBoundJson<'a>>,
}

#[derive(Serialize)]
struct NotBoundJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    reason: String,
}

#[derive(Serialize)]
struct OtherJson {
    machine: &'static str,
    objects: usize,
}

/// `becalm/index/1`.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let machine = &report.sealed.machine;
    let numbers = Numbers::of(report);
    let json = IndexJson {
        schema: "becalm/index/1",
        index: &report.path,
        written: true,
        machine: machine_name(machine.target.machine),
        stores: report.stores.iter().map(text_of).collect(),
        objects: numbers.objects,
        kept: report.kept,
        edges: numbers.edges,
        bytes: report.sealed.file.len(),
        table_bytes: report.sealed.table,
        directories: DirectoriesJson {
            watched: machine.index.folders.iter().filter(|folder| folder.walked).count(),
            snapshotted: numbers.snapshotted,
            not_snapshotted: report.unsnapshotted.iter().map(text_of).collect(),
        },
        deferred: machine
            .deferred_by
            .iter()
            .map(|&(why, questions)| LeftJson { reason: word(why), questions })
            .collect(),
        static_tls: machine
            .static_tls
            .iter()
            .map(|(path, need)| StaticTlsJson { path, optional_static_tls: helps(need) })
            .collect(),
        bindings: bindings_json(machine),
        other_machines: report
            .sealed
            .others
            .iter()
            .map(|&(target, objects)| OtherJson { machine: machine_name(target.machine), objects })
            .collect(),
        errors: errors(&report.problems),
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct CurrentJson {
    schema: &'static str,
    index: String,
    written: bool,
    machine: &'static str,
    objects: usize,
    edges: usize,
    bytes: usize,
    table_bytes: usize,
    errors: [(); 0],
}

/// `becalm/index/1` of an index that `--update` left as it is.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json_current(out: &mut impl Write, path: &Path, old: &Whole) -> io::Result<()> {
    let (objects, edges) = counts(&old.index);
    let json = CurrentJson {
        schema: "becalm/index/1",
        index: path.to_string_lossy().into_owned(),
        written: false,
        machine: machine_name(old.target.machine),
        objects,
        edges,
        bytes: old.bytes.len(),
        table_bytes: old.table.len(),
        errors: [],
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

/// The same as text.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text_current(out: &mut impl Write, look: Look, path: &Path) -> io::Result<()> {
    let name = look.strong(&shown(becalm_lib::path::path_bytes(path).as_ref()));
    writeln!(out, "{name} {}", look.good("is up to date"))
}

/// The summary.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let machine = &report.sealed.machine;
    let numbers = Numbers::of(report);
    writeln!(out, "{} written", look.strong(&shown(report.path.as_ref())))?;
    let name = machine_name(machine.target.machine);
    writeln!(out, "  objects  {} for {name}", grouped(numbers.objects as u64))?;
    if report.kept > 0 {
        writeln!(out, "  kept     answers of {} as they were", grouped(report.kept as u64))?;
    }
    let of_answers = report.sealed.table.saturating_sub(machine.index.bound.encoded_size());
    let each = of_answers as f64 / numbers.edges.max(1) as f64;
    let bytes = grouped(report.sealed.file.len() as u64);
    let answers = counted(numbers.edges as u64, "answer", "answers");
    writeln!(out, "  table    {answers}, {each:.0} bytes each; {bytes} bytes with the module")?;
    snapshots(out, look, report, &numbers)?;
    deferred(out, report)?;
    bindings(out, machine)?;
    static_tls(out, look, report)?;
    for &(target, objects) in &report.sealed.others {
        let (objects, name) = (grouped(objects as u64), machine_name(target.machine));
        writeln!(out, "  not in   {objects} objects for {name}: an index is for one machine")?;
    }
    Ok(())
}

fn snapshots(
    out: &mut impl Write,
    look: Look,
    report: &Report,
    numbers: &Numbers,
) -> io::Result<()> {
    if numbers.snapshotted + report.unsnapshotted.len() > 0 {
        let dirs = counted(numbers.snapshotted as u64, "directory", "directories");
        writeln!(out, "  dirs     {dirs} of LD_LIBRARY_PATH snapshotted")?;
    }
    for dir in &report.unsnapshotted {
        let why = "not there, changed a moment ago, or with hwcaps subdirectories";
        writeln!(
            out,
            "  {} {}: searched as always ({why})",
            look.costly("note"),
            shown(dir.as_ref())
        )?;
    }
    Ok(())
}

fn deferred(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let machine = &report.sealed.machine;
    if machine.deferred_by.is_empty() {
        return Ok(());
    }
    let questions = counted(machine.deferred() as u64, "question", "questions");
    writeln!(out, "  left     {questions} to the loader's own search:")?;
    for &(why, count) in &machine.deferred_by {
        writeln!(out, "             {:>7}  {}", grouped(count as u64), sentence(why))?;
    }
    Ok(())
}

fn bindings_json(machine: &MachineIndex) -> BindingsJson<'_> {
    let bound = &machine.index.bound;
    let sum = |of: fn(&BoundProgram) -> u32| bound.programs.iter().map(|p| u64::from(of(p))).sum();
    let not_bound = machine.not_bound.iter();
    BindingsJson {
        programs: bound.programs.len(),
        relocations: sum(|program| program.relocations),
        bound: sum(|program| program.bindings),
        bytes: bound.encoded_size(),
        not_bound: not_bound
            .map(|(path, why)| NotBoundJson { path, reason: why.to_string() })
            .collect(),
    }
}

/// What the module writes into the programs' objects instead of the loader, and what it does not.
fn bindings(out: &mut impl Write, machine: &MachineIndex) -> io::Result<()> {
    let json = bindings_json(machine);
    if json.programs > 0 {
        let programs = counted(json.programs as u64, "program", "programs");
        let [bound, relocations] = [json.bound, json.relocations].map(grouped);
        let bytes = grouped(json.bytes as u64);
        writeln!(out, "  bindings {bound} of {relocations} for {programs}, {bytes} bytes")?;
    }
    let is_worth_a_line = |why: &NotBound| !matches!(why, NotBound::Few | NotBound::Machine);
    let named = machine.not_bound.iter().filter(|(_, why)| is_worth_a_line(why));
    let count = named.clone().count();
    for (path, why) in named.take(NAMED) {
        writeln!(
            out,
            "  not bound {}: {}",
            shown(path.as_ref()),
            shown(why.to_string().as_str().into())
        )?;
    }
    if count > NAMED {
        writeln!(out, "            and {} more; --json has all", count - NAMED)?;
    }
    if machine.not_bound.iter().any(|(_, why)| *why == NotBound::Machine) {
        let name = machine_name(machine.target.machine);
        writeln!(out, "  bindings none: the module of {name} leaves them to the loader")?;
    }
    Ok(())
}

fn static_tls(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let programs = &report.sealed.machine.static_tls;
    if programs.is_empty() {
        return Ok(());
    }
    let number = counted(programs.len() as u64, "program needs", "programs need");
    writeln!(
        out,
        "  {} {number} glibc.rtld.optional_static_tls (becalm run and becalm env set it):",
        look.costly("tls")
    )?;
    for (path, need) in programs.iter().take(NAMED) {
        let path = shown(path.as_ref());
        match helps(need) {
            Some(value) => writeln!(out, "           {path}: {value}")?,
            None => writeln!(out, "           {path}: does not start under any audit module")?,
        }
    }
    if programs.len() > NAMED {
        writeln!(out, "           and {} more; --json has all", programs.len() - NAMED)?;
    }
    Ok(())
}

/// The value with which a program starts; `None` where there is none.
fn helps(need: &StaticTls) -> Option<u64> {
    if need.impossible { None } else { need.tunable() }
}

struct Numbers {
    objects: usize,
    edges: usize,
    snapshotted: usize,
}

impl Numbers {
    fn of(report: &Report) -> Self {
        let index = &report.sealed.machine.index;
        let (objects, edges) = counts(index);
        Self {
            objects,
            edges,
            snapshotted: index.directories.iter().filter(|dir| dir.names.is_some()).count(),
        }
    }
}

/// Objects and answers of an index.
fn counts(index: &Index) -> (usize, usize) {
    let objects = index.objects.iter().filter(|object| !object.path.is_empty()).count();
    (objects, index.objects.iter().map(|object| object.edges.len()).sum())
}

/// A reason as the JSON has it.
fn word(why: Deferred) -> &'static str {
    match why {
        Deferred::NotFound => "not-found",
        Deferred::OpenElement => "open-element",
        Deferred::Hwcaps => "hwcaps",
        Deferred::Ancestors => "ancestors",
        Deferred::Candidate => "candidate",
        Deferred::Unsettled => "unsettled",
        Deferred::NoPlainName => "no-plain-name",
        Deferred::OtherName => "other-name",
    }
}

fn sentence(why: Deferred) -> &'static str {
    match why {
        Deferred::NotFound => "nothing answers",
        Deferred::OpenElement => "the run path depends on the process ($LIB, $PLATFORM, relative)",
        Deferred::Hwcaps => "the answer depends on the CPU (hwcaps subdirectories)",
        Deferred::Ancestors => "a DT_RPATH of who loads the object may answer first",
        Deferred::Candidate => "the loader refuses a candidate, or it cannot be opened",
        Deferred::Unsettled => "a directory or the loader cache changed a moment ago",
        Deferred::NoPlainName => "the needed string is a path",
        Deferred::OtherName => "the object calls itself by another name than it is needed by",
    }
}

fn text_of(bytes: &BString) -> String {
    bytes.to_str_lossy().into_owned()
}
