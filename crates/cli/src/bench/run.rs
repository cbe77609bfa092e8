//! `becalm bench`: measures the startup time of a program, compared with others.
//!
//! [`variants`] makes the commands from the flags, [`becalm_lib::bench`] measures them,
//! [`crate::bench::output`] formats the result.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_host::bench::{BenchError, Options, Rounds};
use becalm_host::trace::TraceError;
use becalm_host::trust::Rule;
use becalm_lib::bench::{self, Report};
use becalm_lib::escape::shown;
use becalm_lib::json::document;
use becalm_lib::path;
use becalm_lib::words::words_of_chain;
use bstr::ByteSlice;
use rustix::fs::{Mode, OFlags};

use crate::bench::args::{BenchArgs, Export, Form};
use crate::bench::{csv, markdown, text, variants};
use crate::exit_code::ExitStatus;
use crate::terminal::Stdout;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};

/// Measures and prints.
///
/// # Errors
/// Returns an error if a variant cannot be measured, or if the result cannot be written.
pub(crate) fn run(args: &BenchArgs, color: When) -> Result<ExitStatus> {
    let (stdout, mut files) = places(args)?;
    let mut variants = variants::of(args)?;
    let options = options(args);
    // The index is removed after the measurement.
    let (mut alone, mut kept) = (None, None);
    if let [first] = variants.as_slice() {
        match variants::indexed(first) {
            Ok((variant, index)) => {
                variants.push(variant);
                kept = Some(index);
            }
            Err(why) => {
                let why = words_of_chain(why.as_ref());
                alone = Some(format!("not compared with an index: {why}"));
            }
        }
    }
    let report = bench::bench(&variants, &options, &Bars::default());
    drop(kept);
    let mut report = report.map_err(|error| in_words(&error))?;
    report.notes.extend(alone);
    let text = match stdout {
        Some(form) => exported(form, &report),
        None => text::text(Look::of_stdout(color), &report),
    };
    let mut stdout = Stdout::new();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    files.iter_mut().try_for_each(|place| place.tell(&report))?;
    Ok(ExitStatus::Fine)
}

/// Converts an error of the measurement; output of the programs is escaped for the terminal.
pub(crate) fn in_words(error: &BenchError) -> anyhow::Error {
    let mut text = shown(words_of_chain(error).as_bytes().as_bstr());
    if matches!(error, BenchError::Failed { .. }) {
        text.push_str(" (other arguments: --run; measure it all the same: --ignore-failure)");
    }
    if matches!(error, BenchError::Trace(TraceError::TooLong { .. })) {
        text.push_str(" (a program that waits: --until idle)");
    }
    anyhow!(text)
}

fn options(args: &BenchArgs) -> Options {
    Options {
        until: args.until,
        rounds: match args.rounds {
            Some(rounds) => Rounds::Exactly(rounds.into()),
            None => Rounds::Within(args.time),
        },
        warmup: args.warmup.into(),
        cold: args.cold,
        cold_files: Vec::new(),
        timeout: args.timeout,
        seed: args.seed,
        accept_failure: args.ignore_failure,
    }
}

/// A file that is written after the measurement; its old content is kept until then.
struct Place {
    form: Form,
    file: File,
    path: PathBuf,
    /// True for a new file that is still empty.
    is_new: bool,
}

/// Returns the form for stdout, if it is not the text, and the files, opened before any program is started.
fn places(args: &BenchArgs) -> Result<(Option<Form>, Vec<Place>)> {
    let (mut stdout, mut files) = (args.json.then_some(Form::Json), Vec::new());
    for Export { form, file } in &args.export {
        match file {
            Some(path) => files.push(Place::open(*form, path)?),
            None if stdout.is_some_and(|other| other != *form) => {
                bail!("two forms for stdout; name a file for one: --export FORM:FILE");
            }
            None => stdout = Some(*form),
        }
    }
    Ok((stdout, files))
}

impl Place {
    fn open(form: Form, path: &Path) -> Result<Self> {
        let is_new = !path.exists();
        let (flags, mode) = (OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o666));
        let file = Rule::Named.open(path, flags, mode)?.0.into();
        Ok(Self { form, file, path: path.to_owned(), is_new })
    }

    fn tell(&mut self, report: &Report) -> Result<()> {
        let text = exported(self.form, report);
        // A pipe or a device has no length.
        let is_file = self.file.metadata().is_ok_and(|about| about.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.with_context(|| shown(path::path_bytes(&self.path).as_bstr()))?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for Place {
    /// Removes the empty file of a failed measurement.
    fn drop(&mut self) {
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the measurement in one of the forms for other programs.
fn exported(form: Form, report: &Report) -> String {
    match form {
        Form::Json => String::from_utf8_lossy(&document(report)).into_owned(),
        Form::Csv => csv::report(report),
        Form::Markdown => markdown::report(report),
    }
}
