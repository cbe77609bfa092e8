//! `becalm pack` and `becalm unpack`: write what starts need into one file, and add it to what this machine
//! keeps.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use becalm_lib::escape::shown;
use becalm_lib::trees::counts::Counts;
use becalm_lib::trees::pack::{self, PackReport};
use becalm_lib::trees::state::TreesState;
use becalm_lib::trees::unpack;
use becalm_lib::words::counted;

use crate::doctor::text::looked_up;
use crate::exit_code::ExitStatus;
use crate::pack::args::{PackArgs, UnpackArgs};
use crate::terminal;
use crate::terminal::style::{Look, When};

/// Maximum number of files that are left out and named.
const LISTED: usize = 5;

/// Writes a pack.
///
/// # Errors
/// Returns an error if nothing was learned, or the file cannot be written.
pub(crate) fn pack(args: &PackArgs, color: When) -> Result<ExitStatus> {
    let (run, generation) = (args.from.as_deref(), args.generation.as_deref());
    let report = pack::write(&args.output, args.format(), &args.programs, run, generation)?;
    print(args.json, color, "packed", &report)
}

/// Unpacks a pack.
///
/// # Errors
/// Returns an error if the file is no pack.
pub(crate) fn unpack(args: &UnpackArgs, color: When) -> Result<ExitStatus> {
    print(args.json, color, "unpacked", &unpack::unpack(&args.file)?)
}

fn print(json: bool, color: When, done: &str, report: &PackReport) -> Result<ExitStatus> {
    let PackReport { file, files, bytes, indexes, records, left_out } = report.clone();
    let counts = Counts::default();
    let state = TreesState { folder: file, copies: files, bytes, counts, records };
    terminal::write_report(json, report, |out| {
        let mut text = String::new();
        looked_up(&mut text, Look::of_stdout(color), done, usize::MAX, &state);
        if indexes > 0 {
            let _ = writeln!(text, "{done} {}", counted(indexes, "index", "indexes"));
        }
        for (at, path) in left_out.iter().take(LISTED + 1).enumerate() {
            let more = format!("{} more files", left_out.len() - at);
            let path = if at < LISTED { &shown(path.as_str().into()) } else { &more };
            let _ = writeln!(text, "left out: {path}");
        }
        out.write_all(text.as_bytes())
    })?;
    Ok(ExitStatus::Fine)
}
