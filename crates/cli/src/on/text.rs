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
    for program in &report.programs {
        writeln!(out, "{}", line(program))?;
    }
    writeln!(out, "{}", counted(report.programs.len() as u64, "program", "programs"))
}

fn line(program: &Program) -> String {
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
    let pages = if program.shares_pages { ", ready pages" } else { "" };
    let launchers = match program.launchers.as_slice() {
        [] => String::new(),
        all => format!(", plainly by {}", shown(all.join(", ").as_bytes().into())),
    };
    let path = shown(path_bytes(&program.path).as_ref());
    let name = shown(program.name.as_bytes().into());
    format!("{name:20}  {gain}{bindings}{pages}{fresh}{launchers}  {path}")
}

/// Writes what was changed, and when that takes effect.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn written(out: &mut impl Write, report: &Report) -> io::Result<()> {
    files(out, &report.files)?;
    for program in report.programs.iter().filter(|program| program.fresh == Some(false)) {
        writeln!(out, "not by the index: {}", line(program))?;
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
    files(out, &report.files)
}

fn files(out: &mut impl Write, files: &[PathFile]) -> io::Result<()> {
    for file in files.iter().filter(|file| file.changed) {
        writeln!(out, "changed {}: {}", shown(path_bytes(&file.path).as_ref()), file.effect)?;
    }
    Ok(())
}
