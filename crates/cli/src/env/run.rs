//! `becalm env`: prints the lines that set up a session, and those that undo it.
//!
//! [`becalm_lib::env`] finds the index and the values; [`crate::env::text`] formats them for a
//! shell or tool.

use std::io::Write;

use anyhow::Result;
use becalm_lib::env::{self, Options, Reason, Unfit};

use crate::env::args::EnvArgs;
use crate::env::text;
use crate::exit_code::ExitStatus;
use crate::terminal;

/// Prints the lines.
///
/// # Errors
/// Returns an error if the index is missing or invalid.
pub(crate) fn run(args: &EnvArgs) -> Result<ExitStatus> {
    let reader = args.shell.unwrap_or(args.dialect);
    let options = Options {
        index: args.index.clone(),
        static_tls: args.static_tls,
        no_bind: args.no_bind,
        paths: args.paths,
        ahead: args.ahead,
        for_all: reader.is_for_all(),
        undo: args.undo,
    };
    let report = env::env(&options)?;
    for unfit in &report.unfit {
        terminal::note(unfit.program.as_ref(), &words(unfit));
    }
    for path in &report.gone {
        terminal::note(path.as_ref(), "does not exist; removed from LD_AUDIT");
    }
    let text = match (args.json, args.undo) {
        (true, _) => String::new(),
        (_, true) => text::undoing_lines(&report, reader),
        (_, false) => text::lines(&report, reader)?,
    };
    terminal::write_report(args.json, &report, |out| out.write_all(text.as_bytes()))?;
    Ok(ExitStatus::Fine)
}

/// Describes a program that does not start in the session.
fn words(unfit: &Unfit) -> String {
    match unfit.reason {
        Reason::StaticTls { bytes } => format!(
            "may not start in this session: its libraries need {bytes} bytes of static TLS; start \
             it with becalm run, or use becalm env --static-tls {bytes}"
        ),
        Reason::Alignment => "does not start in this session: a library of it has thread-local \
         storage with an alignment that no loader provides under an audit module; start it with \
         LD_AUDIT unset"
            .to_owned(),
    }
}
