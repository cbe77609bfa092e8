//! Text output of `becalm on` and `becalm off`.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::on::{OffReport, PathFile, Program, Report};
use becalm_lib::path::path_bytes;
use becalm_lib::words::{counted, grouped, milliseconds};

/// Writes what was started, and the programs with their figures.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn programs(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let trials = &report.trials;
    if !trials.started.is_empty() {
        let started = counted(trials.started.len() as u64, "program", "programs");
        let network = if trials.no_network { "without a network" } else { "with the network" };
        writeln!(out, "started with --version, {network}: {started}; --json names them")?;
    }
    for (at, program) in report.programs.iter().enumerate() {
        let is_alias = |other: &&Program| program.real.is_some() && other.real == program.real;
        let names: Vec<&str> =
            report.programs.iter().filter(is_alias).map(|it| &*it.name).collect();
        match report.programs[..at].iter().any(|other| is_alias(&other)) {
            true => {}
            false if names.len() > 1 => writeln!(out, "{}", line(program, &names.join(", ")))?,
            false => writeln!(out, "{}", line(program, &program.name))?,
        }
    }
    writeln!(out, "{}", counted(report.programs.len() as u64, "program", "programs"))
}

/// Returns the line of a program with these names.
fn line(program: &Program, names: &str) -> String {
    let gain = match (program.plain_ns, program.on_ns) {
        (Some(plain), Some(on)) => format!("{} to {} ms", milliseconds(plain), milliseconds(on)),
        _ => "not measured".to_owned(),
    };
    let bindings = match program.bindings {
        0 => String::new(),
        bindings => format!(", {} bindings", grouped(bindings.into())),
    };
    let fresh = match program.fresh {
        Some(true) => ", fresh",
        Some(false) => ", stale",
        None => "",
    };
    let starts = program.starts.map(|starts| counted(starts, "start", "starts"));
    let starts = starts.map(|starts| format!(", {starts}")).unwrap_or_default();
    let pages = if program.shares_pages { ", ready pages" } else { "" };
    let launchers = match program.launchers.as_slice() {
        [] => String::new(),
        all => format!(", plainly by {}", shown(all.join(", ").as_bytes().into())),
    };
    let path = shown(path_bytes(&program.path).as_ref());
    let names = shown(names.as_bytes().into());
    format!("{names:20}  {gain}{bindings}{starts}{pages}{fresh}{launchers}  {path}")
}

/// Writes what was changed, and when that takes effect.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn written(out: &mut impl Write, report: &Report) -> io::Result<()> {
    files(out, &report.files)?;
    for program in report.programs.iter().filter(|program| program.fresh == Some(false)) {
        writeln!(out, "not by the index: {}", line(program, &program.name))?;
    }
    let folder = shown(path_bytes(&report.folder).as_ref());
    match report.written {
        true => writeln!(out, "in this shell: export PATH=\"{folder}:$PATH\""),
        false => Ok(()),
    }
}

/// Writes what was switched off.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn off(out: &mut impl Write, report: &OffReport) -> io::Result<()> {
    writeln!(out, "{} off", counted(report.programs.len() as u64, "program", "programs"))?;
    files(out, &report.files)?;
    if report.programs.is_empty() { Ok(()) } else { writeln!(out, "in this shell: hash -r") }
}

fn files(out: &mut impl Write, files: &[PathFile]) -> io::Result<()> {
    for file in files.iter().filter(|file| file.changed) {
        writeln!(out, "changed {}: {}", shown(path_bytes(&file.path).as_ref()), file.effect)?;
    }
    Ok(())
}
