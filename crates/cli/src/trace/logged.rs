//! A log of the audit module: a line a process, its probes, or one JSON object.

use std::fmt::Write;

use becalm_core::probe::Probe;
use becalm_lib::escape::shown;
use becalm_lib::json::{as_json, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::BString;
use serde::Serialize;

use crate::terminal::probes;
use crate::terminal::style::Look;
use crate::trace::args::TraceArgs;
use crate::trace::log_report::Logged;

#[derive(Serialize)]
struct ReportJson<'a> {
    schema: &'static str,
    from_log: bool,
    opens_alone: bool,
    images: Vec<ImageJson<'a>>,
}

#[derive(Serialize)]
struct ImageJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    pid: u32,
    questions: usize,
    answered: usize,
    missed_opens: usize,
    probes: &'a [Probe],
}

impl<'a> ImageJson<'a> {
    fn of(process: &'a Logged) -> Self {
        let Logged { path, pid, questions, answered, probes } = process;
        Self {
            path,
            pid: *pid,
            questions: *questions,
            answered: *answered,
            missed_opens: process.misses(),
            probes,
        }
    }
}

/// The log in the form that was asked for.
#[must_use]
pub(crate) fn logged(look: Look, args: &TraceArgs, processes: &[Logged]) -> Vec<u8> {
    if args.json {
        return json(processes);
    }
    let mut text = String::new();
    for process in processes {
        if args.probes {
            text.push_str(&probes::observed(look, &process.probes));
            continue;
        }
        let path = look.strong(&shown(process.path.as_ref()));
        let questions = counted(process.questions as u64, "question", "questions");
        let answered = grouped(process.answered as u64);
        let misses = match process.misses() as u64 {
            0 => look.good("no failed opens"),
            number => look.costly(&counted(number, "failed open", "failed opens")),
        };
        let _ = writeln!(
            text,
            "{path} [{}]: {questions}, {answered} answered by the index; {misses}",
            process.pid
        );
    }
    text.into_bytes()
}

fn json(processes: &[Logged]) -> Vec<u8> {
    let report = ReportJson {
        schema: "becalm/trace/1",
        from_log: true,
        opens_alone: true,
        images: processes.iter().map(ImageJson::of).collect(),
    };
    let mut text = as_json(&report);
    text.push(b'\n');
    text
}
