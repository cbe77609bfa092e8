//! Destinations of a report, and its forms: a screen, its probes, its files, or one JSON object. Files are opened before the program is started, so that a file that
//! cannot be created is reported before anything runs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_host::trust;
use becalm_lib::json::document;
use becalm_lib::trace::report::Report;

use crate::check::files::text::Written;
use crate::terminal::probes;
use crate::terminal::style::{Look, When};
use crate::trace::args::TraceArgs;
use crate::trace::{chrome, text};

/// The files of a run.
#[derive(Debug)]
pub(crate) struct Places {
    /// `-o`.
    output: Option<(PathBuf, File)>,
    /// `--log`.
    log: Option<(PathBuf, File)>,
    json: bool,
    look: Look,
}

impl Places {
    /// Creates the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created.
    pub(crate) fn open(args: &TraceArgs, color: When) -> Result<Self> {
        let output = args.output.as_deref().map(create).transpose()?;
        let log = args.log.as_deref().map(create).transpose()?;
        let json = args.json || args.format.is_some();
        let look = match (&output, json) {
            (Some(_), _) => Look::of_file(color),
            (None, true) => Look::of_file(When::Never),
            (None, false) => Look::of_stderr(color),
        };
        Ok(Places { output, log, json, look })
    }

    /// True if the JSON object goes to the same stream as the program's output.
    pub(crate) fn json_on_stdout(&self) -> bool {
        self.json && self.output.is_none()
    }

    /// Writes the log and the report; if the first fails, the second is written anyway.
    ///
    /// # Errors
    /// Returns an error if one cannot be written.
    pub(crate) fn tell(&mut self, args: &TraceArgs, report: &Report) -> Result<()> {
        let logged = self.write_log(report);
        let text = formatted(self.look, args, report);
        let told = match &mut self.output {
            Some((path, file)) => file.write_all(&text).with_context(|| path.display().to_string()),
            None if self.json => to_stdout(&text),
            None => {
                let mut stderr = io::stderr().lock();
                stderr.write_all(&text).context("stderr")
            }
        };
        logged.and(told)
    }

    fn write_log(&mut self, report: &Report) -> Result<()> {
        let Some((path, file)) = &mut self.log else { return Ok(()) };
        let lines = probes(Look::of_file(When::Never), report);
        file.write_all(lines.as_bytes()).with_context(|| path.display().to_string())
    }
}

/// Returns the report in the requested form.
fn formatted(look: Look, args: &TraceArgs, report: &Report) -> Vec<u8> {
    if args.format.is_some() {
        return chrome::document(report);
    }
    if args.json {
        return document(report);
    }
    if args.files {
        let mut written = Written::default();
        return report.images.iter().flat_map(|seen| written.lines(&seen.files, b'\n')).collect();
    }
    if args.probes {
        return probes(look, report).into();
    }
    text::of(look, report, args.predict).into_bytes()
}

/// Returns the probes of all images, one a line.
fn probes(look: Look, report: &Report) -> String {
    report.images.iter().map(|seen| probes::lines(look, seen.probes.iter())).collect()
}

fn create(path: &Path) -> Result<(PathBuf, File)> {
    Ok((path.to_owned(), trust::create(path)?))
}

/// Writes after the program's output, on a new line if possible.
fn to_stdout(text: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    if !is_at_line_start() {
        out.write_all(b"\n")?;
    }
    out.write_all(text)?;
    out.flush()?;
    Ok(())
}

/// False if stdout is a file that does not end with a newline.
fn is_at_line_start() -> bool {
    let last = || -> io::Result<u8> {
        // Opened again, because the descriptor may be open for writing only.
        let file = File::open("/proc/self/fd/1")?;
        let about = file.metadata()?;
        let mut last = [b'\n'];
        if about.file_type().is_file() && about.size() > 0 {
            file.read_exact_at(&mut last, about.size() - 1)?;
        }
        Ok(last[0])
    };
    let is_file = rustix::fs::fstat(io::stdout())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file());
    !is_file || last().is_ok_and(|byte| byte == b'\n')
}

/// Replaces the standard streams by /dev/null, so that their readers see the end.
pub(crate) fn let_go_of_streams() {
    let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") else { return };
    // If this fails the streams stay open, and a reader waits.
    let _ = rustix::stdio::dup2_stdin(&nothing);
    let _ = rustix::stdio::dup2_stdout(&nothing);
    let _ = rustix::stdio::dup2_stderr(&nothing);
}
