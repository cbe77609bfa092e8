//! `becalm verify`: is what a strategy left still what the plain search gives, and does the real
//! loader load the same objects as it would without it?
//!
//! [`becalm_core::strategy::verify`] judges one object; [`load`] has the loader run.

use std::io::Write;

use anyhow::Result;
use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::facts::Environment;
use becalm_core::strategy::Settings;
use becalm_core::strategy::verify::{self};
use becalm_lib::assume::Assumptions;
use becalm_lib::follow::{Followed, follow_where};
use becalm_lib::targets;
use becalm_lib::targets::{Problem, Target};
use rayon::prelude::*;

use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal::progress::Progress;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};
use crate::verify::args::VerifyArgs;
use crate::verify::report::{Judged, Report};
use crate::verify::{load, text};

/// Files judged with one look at the directories they share.
const IN_A_SESSION: usize = 64;

/// Verifies what the flags ask for.
///
/// # Errors
/// Where nothing can be verified at all, or the output cannot be written.
pub(crate) fn run(args: &VerifyArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    if let [path] = args.paths.as_slice()
        && becalm_lib::index::file::is_index(path)
    {
        return crate::verify::index::run_index(path, args.json, color);
    }
    let assumed = Assumptions::new(&args.assume.options())?;
    let found = targets::find(&assumed, &args.paths);
    let stores = assumed.stores.clone();
    let verifier = Verifier { args, assumed, settings: Settings { stores, ..Settings::default() } };
    let mut report = verifier.all(&found.files);
    report.problems.extend(found.problems);
    terminal::note_all(&report.problems);
    let mut out = Stdout::new();
    if args.json {
        text::json(&mut out, &report)?;
    } else {
        text::text(&mut out, Look::of_stdout(color), &report)?;
    }
    out.flush()?;
    Ok(report.status())
}

struct Verifier<'a> {
    args: &'a VerifyArgs,
    assumed: Assumptions,
    settings: Settings,
}

impl Verifier<'_> {
    fn all(&self, files: &[Target]) -> Report {
        let progress = Progress::new(files.len());
        let some = |files: &[Target]| {
            let mut report = Report::default();
            for target in files {
                if let Err(reason) = self.one(target, &mut report) {
                    report.problems.push(Problem { path: target.shown.clone(), reason });
                }
                progress.tick();
            }
            report
        };
        let parts: Vec<Report> = files.par_chunks(IN_A_SESSION).map(some).collect();
        progress.finish();
        let mut all = Report::default();
        for part in parts {
            all.looked_at += part.looked_at;
            all.objects.extend(part.objects);
            all.loads.extend(part.loads);
            all.problems.extend(part.problems);
        }
        all
    }

    fn one(&self, target: &Target, report: &mut Report) -> Result<(), String> {
        let session = self.assumed.fs.session();
        let environment = Environment::default();
        // Answers are judged by the object alone; only a program that is loaded needs its loader.
        let walks = |kind: &_| self.args.load && matches!(kind, SubjectKind::Program { .. });
        let followed = follow_where(&self.assumed, &session, target, &environment, walks)?;
        let closure = match followed {
            Followed::Elf(closure, _) => closure,
            Followed::MachO(_) | Followed::Nothing => return Ok(()),
        };
        report.looked_at += 1;
        let answers = verify::object(&session, &closure.subject, &self.settings);
        if !answers.is_empty() {
            report.objects.push(Judged { path: target.shown.clone(), answers });
        }
        if self.args.load && is_program(&closure) {
            let loads = load::compare(&session, &self.assumed, target, &closure)?;
            report.loads.push((target.shown.clone(), loads));
        }
        Ok(())
    }
}

fn is_program(closure: &Closure) -> bool {
    matches!(closure.subject.kind, SubjectKind::Program { .. })
}

impl Report {
    fn status(&self) -> ExitStatus {
        let answers = self.objects.iter().flat_map(|object| &object.answers);
        let stale = answers.into_iter().any(|answer| answer.verdict.is_finding());
        let differs = self.loads.iter().any(|(_, loads)| !loads.is_equal());
        if !self.problems.is_empty() {
            ExitStatus::Failure
        } else if stale || differs {
            ExitStatus::Finding
        } else {
            ExitStatus::Fine
        }
    }
}
