//! `becalm report`: makes a page about a program's search, before and after a strategy.
//!
//! [`becalm_lib::report`] collects the data, [`crate::report::html`] makes the page.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use anyhow::{Context, Result, bail};
use becalm_host::trust::{self, Rule};
use becalm_host::write::{WriteOptions, Writer};
use becalm_lib::compare::comparison::Comparison;
use becalm_lib::escape::shown_path;
use becalm_lib::json;
use becalm_lib::path::path_bytes;
use becalm_lib::report::report;
use becalm_lib::words::words;
use rustix::fs::{Access, Mode};

use crate::exit_code::ExitStatus;
use crate::report::args::ReportArgs;
use crate::report::{html, survey};
use crate::terminal::{self, Stdout};

/// The size limit of a table of `lab compare`.
const MAX_COMPARISON: u64 = 64 << 20;

/// Makes the page.
///
/// # Errors
/// Returns an error if the program or the file shown beside it cannot be read, or if the page
/// cannot be written.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitStatus> {
    let output = &args.output();
    if let Some(lines) = &args.survey {
        let summary = survey::read(lines).with_context(|| shown_path(lines))?;
        let write =
            |file: &Path, page: &str| write(file, page.as_ref()).with_context(|| shown_path(file));
        let (first, pages) = match output.is_dir() {
            true => {
                let pages = |name: &str, page: &str| write(&output.join(name), page);
                (output.join("index.html"), survey::pages(&summary, args, pages)?)
            }
            false => (output.clone(), HashMap::new()),
        };
        write(&first, &survey::page(&summary, &pages)?)?;
        return done(args, "", &first);
    }
    let Some(program) = &args.program else { bail!("report: no program") };
    // Before the starts, which take some seconds.
    let folder = output.parent().filter(|it| !it.as_os_str().is_empty());
    let writable = rustix::fs::access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK);
    if !output.exists() {
        writable.map_err(io::Error::from).with_context(|| shown_path(output))?;
    }
    let report = report(&args.options(program)?)?;
    let comparison = args.compare.as_deref().map(comparison).transpose()?;
    let page = html::page(&report, comparison.as_ref())?;
    write(output, page.as_ref()).with_context(|| shown_path(output))?;
    let line = report.before.line().map_or_else(String::new, |line| line + "\n");
    done(args, &line, output)
}

/// Prints the lines about the page and its name, and opens it if that is wanted.
fn done(args: &ReportArgs, line: &str, output: &Path) -> Result<ExitStatus> {
    if output.is_file() {
        let mut out = Stdout::new();
        writeln!(out, "{line}{} written", shown_path(output))?;
        out.flush()?;
    }
    if args.open {
        open(output);
    }
    Ok(ExitStatus::Fine)
}

/// Opens the page in a browser, and says in a line if it cannot be opened.
fn open(page: &Path) {
    let mut command = Command::new("xdg-open");
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let why = match command.status() {
        Ok(status) if status.success() => return,
        Ok(status) => status.to_string(),
        Err(error) => words(&error),
    };
    terminal::note(path_bytes(page).as_ref(), &format!("not opened by xdg-open: {why}"));
}

/// Writes a page. An older page is kept whole if writing fails. A pipe or a device is written
/// directly.
fn write(output: &Path, page: &[u8]) -> Result<()> {
    let mode = match fs::metadata(output) {
        Ok(old) if !old.is_file() => return Ok(trust::create(output)?.write_all(page)?),
        Ok(old) => old.mode() & 0o7777,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        // A slash at the end names a folder.
        Err(error) if output.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            return Err(error.into());
        }
        // The umask applies to a new page, as if it were written in place.
        Err(_) => 0o666 & !umask(),
    };
    let writer = Writer::new(WriteOptions::default());
    writer.write_new(&Rule::Named.real(output)?, page, mode, |_| true)?;
    Ok(())
}

/// Returns the umask. No other thread makes a file meanwhile.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

/// Reads a `becalm/compare/1` object.
fn comparison(path: &Path) -> Result<Comparison> {
    if fs::metadata(path).with_context(|| shown_path(path))?.len() > MAX_COMPARISON {
        bail!("{}: too large for a comparison", shown_path(path));
    }
    json::read_file(path, "lab compare --json")
}
