//! Text output of `becalm index`: a summary.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::index::report::{
    Bindings, Content, Deferred, NotBound, PathTable, ProgramTls, Report, Unbound,
};
use becalm_lib::words::{counted, grouped};
use bstr::BString;

use crate::terminal::style::Look;

/// The number of programs that the summary lists.
const NAMED: usize = 5;

/// Writes the summary.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let name = look.strong(&shown(report.index.as_ref()));
    let Some(content) = &report.content else {
        return writeln!(out, "{name} {}", look.good("is up to date"));
    };
    let machine = report.machine;
    writeln!(out, "{name} written")?;
    writeln!(out, "  objects  {} for {machine}", grouped(report.objects as u64))?;
    if let Some(kept) = report.kept.filter(|&kept| kept > 0) {
        writeln!(out, "  kept     answers of {} unchanged objects", grouped(kept as u64))?;
    }
    let of_answers = report.table_bytes.saturating_sub(content.bindings.bytes);
    let each = of_answers as f64 / report.edges.max(1) as f64;
    let bytes = grouped(report.bytes as u64);
    let answers = counted(report.edges as u64, "answer", "answers");
    writeln!(out, "  table    {answers}, {each:.0} bytes each; {bytes} bytes with the module")?;
    snapshots(out, look, content)?;
    deferred(out, content)?;
    bindings(out, &content.bindings, machine)?;
    paths(out, look, content.paths.as_ref())?;
    static_tls(out, look, content)?;
    for other in &content.other_machines {
        let (objects, name) = (grouped(other.objects as u64), other.machine);
        writeln!(out, "  not in   {objects} objects for {name}: an index is for one machine")?;
    }
    Ok(())
}

/// Writes the first lines, and how many are left.
fn first(out: &mut impl Write, mut lines: impl Iterator<Item = String>) -> io::Result<()> {
    lines.by_ref().take(NAMED).try_for_each(|line| writeln!(out, "{line}"))?;
    match lines.count() {
        0 => Ok(()),
        more => writeln!(out, "           and {more} more; --json has all"),
    }
}

fn snapshots(out: &mut impl Write, look: Look, content: &Content) -> io::Result<()> {
    let dirs = &content.directories;
    if dirs.snapshotted + dirs.not_snapshotted.len() > 0 {
        let dirs = counted(dirs.snapshotted as u64, "directory", "directories");
        writeln!(out, "  dirs     {dirs} of LD_LIBRARY_PATH snapshotted")?;
    }
    // A line on stderr was about each relative one.
    for dir in dirs.not_snapshotted.iter().filter(|dir| dir.starts_with(b"/")) {
        let why = "searched as always (changed a moment ago, or with hwcaps subdirectories)";
        writeln!(out, "{}", note(look, dir, why))?;
    }
    let lines = dirs.modules_not_understood.iter();
    let why = "LD_LIBRARY_PATH gets a value that is not understood";
    first(out, lines.map(|line| note(look, line, why)))
}

/// Returns a remark on a path.
fn note(look: Look, path: &BString, what: &str) -> String {
    format!("  {} {}: {what}", look.costly("note"), shown(path.as_ref()))
}

fn deferred(out: &mut impl Write, content: &Content) -> io::Result<()> {
    if content.deferred.is_empty() {
        return Ok(());
    }
    let questions = content.deferred.iter().map(|left| left.questions as u64).sum();
    let questions = counted(questions, "question", "questions");
    writeln!(out, "  left     {questions} to the loader's own search:")?;
    for left in &content.deferred {
        let count = grouped(left.questions as u64);
        writeln!(out, "             {count:>7}  {}", sentence(left.reason))?;
    }
    Ok(())
}

/// Writes the figures of the table of paths.
fn paths(out: &mut impl Write, look: Look, paths: Option<&PathTable>) -> io::Result<()> {
    let Some(paths) = paths else { return Ok(()) };
    let packages = counted(paths.packages as u64, "package", "packages");
    let (all, read) = (grouped(paths.paths as u64), grouped(paths.read as u64));
    writeln!(out, "  paths    {all} in {packages}, {read} of them read")?;
    if paths.packages == 0 {
        let note = look.costly("note");
        let why = "no packages that never change: a tree that changes needs no paths, becalm run looks \
                   them up ahead on network file systems";
        writeln!(out, "  {note} {why}")?;
    }
    let left_out = paths.left_out.iter().map(|left| {
        note(look, &left.path, &format!("its paths are not indexed ({})", left.reason))
    });
    first(out, left_out)?;
    if paths.left_out.iter().any(|left| left.passing) {
        writeln!(out, "           becalm index --update adds what changed a moment ago")?;
    }
    if let Some(first) = paths.outside.first() {
        let dirs = counted(paths.outside.len() as u64, "directory", "directories");
        let (note, first) = (look.costly("note"), shown(first.as_ref()));
        writeln!(
            out,
            "  {note} {dirs} of the run in no package, most misses in {first}: left to the kernel"
        )?;
    }
    Ok(())
}

/// Writes the counts of bindings made by the module instead of the loader, and of those not made.
fn bindings(out: &mut impl Write, bindings: &Bindings, machine: &str) -> io::Result<()> {
    if bindings.programs > 0 {
        let programs = counted(bindings.programs as u64, "program", "programs");
        let [bound, relocations] = [bindings.bound, bindings.relocations].map(grouped);
        let bytes = grouped(bindings.bytes as u64);
        writeln!(out, "  bindings {bound} of {relocations} for {programs}, {bytes} bytes")?;
    }
    let is_worth_a_line =
        |unbound: &&Unbound| !matches!(unbound.reason, NotBound::Few | NotBound::Machine);
    let named = bindings.not_bound.iter().filter(is_worth_a_line).map(|unbound| {
        let why = unbound.reason.to_string();
        format!("  not bound {}: {}", shown(unbound.path.as_ref()), shown(why.as_str().into()))
    });
    first(out, named)?;
    if bindings.not_bound.iter().any(|unbound| unbound.reason == NotBound::Machine) {
        writeln!(out, "  bindings none: the module of {machine} leaves them to the loader")?;
    }
    Ok(())
}

fn static_tls(out: &mut impl Write, look: Look, content: &Content) -> io::Result<()> {
    let programs = &content.static_tls;
    if programs.is_empty() {
        return Ok(());
    }
    let number = counted(programs.len() as u64, "program needs", "programs need");
    writeln!(
        out,
        "  {} {number} glibc.rtld.optional_static_tls (becalm run and becalm env set it):",
        look.costly("tls")
    )?;
    let need = |program: &ProgramTls| {
        let need = program.optional_static_tls.map(|value| value.to_string());
        let need = need.as_deref().unwrap_or("does not start under any audit module");
        format!("           {}: {need}", shown(program.path.as_ref()))
    };
    first(out, programs.iter().map(need))
}

fn sentence(why: Deferred) -> &'static str {
    match why {
        Deferred::NotFound => "nothing answers",
        Deferred::OpenElement => "the run path depends on the process ($LIB, $PLATFORM, relative)",
        Deferred::Hwcaps => "the answer depends on the CPU (hwcaps subdirectories)",
        Deferred::Ancestors => "a DT_RPATH of an object that loads this one may answer first",
        Deferred::Candidate => "the loader refuses a candidate, or it cannot be opened",
        Deferred::Unsettled => "a directory or the loader cache changed a moment ago",
        Deferred::NoPlainName => "the needed string is a path",
        Deferred::OtherName => "the soname of the library differs from the needed string",
    }
}
