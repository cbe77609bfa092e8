//! Output of becalm: results on stdout in the forms of the modules here, errors on stderr, one line
//! each.

pub(crate) mod changed;
pub(crate) mod manual;
pub(crate) mod probes;
pub(crate) mod progress;
pub(crate) mod style;

use std::io::{self, BufWriter, StdoutLock, Write};

use becalm_lib::escape::shown;
use becalm_lib::json::{Report, document};
use becalm_lib::targets::Problem;
use becalm_lib::words::{words, words_of_chain};
use bstr::BStr;

/// Standard output, written in large pieces.
#[derive(Debug)]
pub(crate) struct Stdout(BufWriter<StdoutLock<'static>>);

impl Stdout {
    /// Locks standard output; a run has one.
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 * 1024, io::stdout().lock()))
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_stdout)
    }
}

/// Adds to an error that it is about standard output; its kind stays.
pub(crate) fn of_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {}", words(&error)))
}

/// Writes a line to standard output.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    let mut out = Stdout::new();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Writes a command's report: one JSON object, or the text that `text` makes of it.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn write_report(
    json: bool,
    report: &impl Report,
    text: impl FnOnce(&mut Stdout) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = Stdout::new();
    match json {
        true => out.write_all(&document(report))?,
        false => text(&mut out)?,
    }
    out.flush()
}

/// Aligns the cells of rows to the right, in columns as wide as their widest cell.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

/// Prints one line on stderr about a file: `becalm: <path>: <what>`.
pub(crate) fn note(path: &BStr, what: &str) {
    say(&format!("{}: {what}", shown(path)));
}

/// Prints one line on stderr for each file that was skipped or failed.
pub(crate) fn note_all(problems: &[Problem]) {
    problems.iter().for_each(|problem| say(&problem.to_string()));
}

/// Prints one line on stderr: the error and its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    say(&shown(words_of_chain(error.as_ref()).as_str().into()));
}

fn say(what: &str) {
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "becalm: {what}");
}

/// True if an error means that the reader of our output has closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
