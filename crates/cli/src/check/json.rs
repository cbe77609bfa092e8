//! `becalm/check/1`: the answer as one JSON object, one line a program.
//!
//! The object is written as the programs come, so that a folder's probes are never
//! all in memory. Byte strings become text lossily.

use std::io::{self, Write};

use becalm_core::closure::Closure;
use becalm_core::cost::SearchCost;
use becalm_core::macho::{NameClass, Slice};
use becalm_core::probe::Probe;
use becalm_core::symbols::SymbolReport;
use becalm_lib::advice::Advice;
use becalm_lib::beside::Beside;
use becalm_lib::check::{Kind, Program};
use becalm_lib::files::StartFile;
use becalm_lib::json::{as_json, lossy, lossy_option};
use becalm_lib::targets::Problem;
use bstr::{BString, ByteSlice};
use serde::Serialize;

use becalm_lib::loaded_index::{IndexedBindings, IndexedStart};
/// The name and version of the object's form.
const SCHEMA: &str = "becalm/check/1";

/// One program.
#[derive(Serialize)]
pub(crate) struct ProgramJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    kind: &'static str,
    machine: &'static str,
    libc: Option<String>,
    #[serde(serialize_with = "lossy_option")]
    interpreter: &'a Option<BString>,
    secure: bool,
    immutable: bool,
    #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
    calmed_by: &'a Option<BString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexed_bindings: Option<IndexedBindings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indexed: &'a Option<IndexedStart>,
    storm: SearchCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_glibc: Option<NewerJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: &'a Option<Advice>,
    unresolved: Vec<String>,
    stop: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_budget: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scripts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<&'a [StartFile]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probes: Option<Vec<Probe>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbols: &'a Option<SymbolReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<&'a Beside>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slices: Option<Vec<SliceJson>>,
}

/// The same start by another release.
#[derive(Serialize)]
struct NewerJson {
    libc: String,
    storm: SearchCost,
}

/// One slice of a Mach-O file.
#[derive(Serialize)]
struct SliceJson {
    cpu: &'static str,
    dylibs: usize,
    absolute: usize,
    rpath_dylibs: usize,
    rpaths: usize,
    dyld_candidates: usize,
}

/// The beginning, up to the first program.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn begin(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{{\"schema\":\"{SCHEMA}\",\"programs\":[")
}

/// One program; with its probes where the closure is given.
#[must_use]
pub(crate) fn program(program: &Program, closure: Option<&Closure>, with_probes: bool) -> Vec<u8> {
    program_beside(program, closure, with_probes, None)
}

/// As [`program`], beside what was observed of it.
#[must_use]
pub(crate) fn program_beside(
    program: &Program,
    closure: Option<&Closure>,
    with_probes: bool,
    against: Option<&Beside>,
) -> Vec<u8> {
    let probes = || closure.map(|closure| closure.probes().collect()).unwrap_or_default();
    let json =
        ProgramJson { probes: with_probes.then(probes), against, ..ProgramJson::of(program) };
    as_json(&json)
}

impl<'a> ProgramJson<'a> {
    /// A program without its probes.
    #[must_use]
    pub(crate) fn of(program: &'a Program) -> Self {
        Self {
            path: &program.path,
            kind: match program.kind {
                Kind::Program => "program",
                Kind::Library => "library",
                Kind::Static => "static",
                Kind::MachO(_) => "mach-o",
            },
            machine: program.machine,
            libc: program.libc.map(|libc| libc.to_string()),
            interpreter: &program.interpreter,
            secure: program.secure,
            immutable: program.immutable,
            calmed_by: &program.calmed_by,
            indexed_bindings: program.bindings,
            indexed: &program.indexed,
            storm: program.storm,
            newer_glibc: program
                .newer_glibc
                .map(|newer| NewerJson { libc: newer.libc.to_string(), storm: newer.storm }),
            advice: &program.advice,
            unresolved: program.unresolved.iter().map(|g| g.needed.to_str_lossy().into()).collect(),
            stop: &program.stop,
            over_budget: program.over_budget,
            scripts: program.scripts.iter().map(|path| path.to_str_lossy().into()).collect(),
            files: program.files.as_deref(),
            probes: None,
            symbols: &program.symbols,
            against: None,
            slices: match &program.kind {
                Kind::MachO(file) => Some(file.slices.iter().map(slice).collect()),
                _ => None,
            },
        }
    }
}

/// The end: the total, and what could not be checked.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn end(
    out: &mut impl Write,
    programs: &[Program],
    problems: &[Problem],
) -> io::Result<()> {
    let mut total = SearchCost::default();
    for program in programs {
        total.add(&program.storm);
    }
    out.write_all(b"\n],\"total\":")?;
    out.write_all(&as_json(&total))?;
    out.write_all(b",\"errors\":")?;
    out.write_all(&as_json(&problems))?;
    out.write_all(b"}\n")
}

/// Counts of a slice's load commands.
fn slice(slice: &Slice) -> SliceJson {
    SliceJson {
        cpu: slice.cpu,
        dylibs: slice.dylibs.len(),
        absolute: count(slice, NameClass::Absolute),
        rpath_dylibs: count(slice, NameClass::Rpath),
        rpaths: slice.rpaths.len(),
        dyld_candidates: slice.dyld_candidates(),
    }
}

/// How many dylibs of a slice have a name of this class.
#[must_use]
pub(crate) fn count(slice: &Slice, class: NameClass) -> usize {
    slice.dylibs.iter().filter(|dylib| dylib.class() == class).count()
}
