//! `becalm elf`: prints what is asked for, then edits.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use becalm_core::elf::ObjectView;
use becalm_host::OsFs;
use becalm_host::trust::{self, Rule};
use becalm_host::write::Writer;
use becalm_lib::elf_edits::{self, Changes, run_path};
use becalm_lib::path::path_bytes;
use becalm_lib::progress::Progress;
use becalm_lib::writing::Changed;
use bstr::{BStr, BString};
use tempfile::NamedTempFile;

use crate::elf::args::ElfArgs;
use crate::elf::os_abi;
use crate::exit_code::ExitStatus;
use crate::terminal::Stdout;
use crate::terminal::changed::tell_trouble;
use crate::terminal::progress::Bars;

/// Prints and edits.
///
/// # Errors
/// Returns an error if a file cannot be read, or nothing can be written at all.
pub(crate) fn run(args: &ElfArgs) -> Result<ExitStatus> {
    let changes = args.changes()?;
    ensure!(args.output.is_none() || args.files.len() == 1, "--output is for a single file");
    let fs = OsFs::new();
    let mut out = Stdout::new();
    for file in &args.files {
        let context = || file.display().to_string();
        let view = elf_edits::open(&fs, file).with_context(context)?;
        check_page_size(args, &view).with_context(context)?;
        print(&mut out, args, file, &view).with_context(context)?;
    }
    out.flush()?;
    let edit = |files: &[PathBuf]| {
        let writing = Bars::default();
        let changed = elf_edits::apply(&changes, files, &fs, args.writing, &writing);
        status(&changed, &args.files, writing.is_interrupted())
    };
    match &args.output {
        Some(output) => edit_copy(args, output, |copy| edit(&[copy])),
        None if changes != Changes::default() => Ok(edit(&args.files)),
        None => Ok(ExitStatus::Fine),
    }
}

/// Edits a copy of the only file and gives it the name `output`. If the edit is refused, `output` stays as it is.
fn edit_copy(
    args: &ElfArgs,
    output: &Path,
    edit: impl FnOnce(PathBuf) -> ExitStatus,
) -> Result<ExitStatus> {
    let file = &args.files[0];
    let context = || output.display().to_string();
    // A device such as /dev/null is written to and keeps its name.
    let is_replaced = fs::metadata(output).map_or(true, |existing| existing.is_file());
    // Before the edit, which holds signals back: a FIFO waits for its reader.
    let device = (!is_replaced).then(|| trust::create(output)).transpose()?;
    // A link leads to the file that is replaced.
    let real = if is_replaced { Rule::Named.real(output)? } else { std::env::temp_dir().join("-") };
    let folder = real.parent().unwrap_or(Path::new("/"));
    let copy = NamedTempFile::new_in(folder).with_context(|| folder.display().to_string())?;
    let copy = copy.into_temp_path();
    fs::copy(file, &copy).with_context(|| file.display().to_string())?;
    let status = edit(copy.to_path_buf());
    if status != ExitStatus::Fine {
        return Ok(status);
    }
    if !args.writing.no_sync {
        fs::File::open(&copy)?.sync_all()?;
    }
    match device {
        Some(mut device) => device.write_all(&fs::read(&copy)?).with_context(context)?,
        None => Writer::new(args.writing).rename(&copy, &real)?,
    }
    Ok(status)
}

/// Returns an error if new segments would not fit the page size that the user needs.
fn check_page_size(args: &ElfArgs, view: &ObjectView) -> Result<()> {
    let largest = becalm_rewrite::page_size(view.ident.machine);
    if let Some(size) = args.page_size {
        ensure!(
            size.is_power_of_two() && size <= largest,
            "--page-size {size}: not a power of two up to {largest}, the largest of the machine"
        );
    }
    Ok(())
}

/// Prints what was refused, with the remarks of the editor, and returns the exit status. `named` are
/// the files as the user named them.
fn status(changed: &[Changed], named: &[PathBuf], interrupted: bool) -> ExitStatus {
    let as_named =
        |(file, named): (&Changed, &PathBuf)| Changed { path: path_bytes(named), ..file.clone() };
    let changed: Vec<Changed> = changed.iter().zip(named).map(as_named).collect();
    tell_trouble(changed.iter());
    let failed = changed.iter().any(|file| file.outcome.is_missing() || file.has_failed());
    ExitStatus::of_writing(interrupted, failed, false)
}

/// Prints what is asked for of one file.
fn print(out: &mut impl Write, args: &ElfArgs, file: &Path, view: &Arc<ObjectView>) -> Result<()> {
    if args.print_interpreter {
        line(out, Some(view.interpreter.as_ref().context("no interpreter (PT_INTERP)")?.as_ref()))?;
    }
    if args.print_os_abi {
        writeln!(out, "{}", os_abi::name(view.ident.os_abi))?;
    }
    let dynamic = view.dynamic.as_ref();
    if args.print_soname {
        line(out, dynamic.and_then(|dynamic| dynamic.soname.as_ref()).map(BString::as_ref))?;
    }
    if args.print_rpath {
        line(out, run_path(view))?;
    }
    if args.print_needed {
        for needed in view.needed() {
            line(out, Some(needed))?;
        }
    }
    if args.print_execstack {
        let requested = becalm_rewrite::executable_stack(fs::read(file)?.as_slice())?;
        let letter = match requested {
            Some(true) => "X",
            Some(false) => "-",
            None => "?",
        };
        writeln!(out, "execstack: {letter}")?;
    }
    Ok(())
}

fn line(out: &mut impl Write, text: Option<&BStr>) -> io::Result<()> {
    out.write_all(text.unwrap_or_default())?;
    out.write_all(b"\n")
}
