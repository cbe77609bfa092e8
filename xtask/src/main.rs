//! `cargo xtask …`: the project's own chores.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::audit_trial;
use xtask::case::{Case, Predictor};
use xtask::crash_trial;
use xtask::differential::{self, Options};
use xtask::predict::Question;
use xtask::trace_differential;

/// The project's own chores.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Hold the model against the real loader on many objects.
    Differential(Options),
    /// Hold becalm trace against strace, against the model, and against no tracer.
    TraceDifferential(trace_differential::Options),
    /// Hold starts under the audit module against plain ones.
    AuditTrial(audit_trial::Options),
    /// Kill becalm fix and undo, and let them fail, at each of their calls.
    CrashTrial(crash_trial::Options),
    /// Build one case and print what the loader did beside what the model says.
    Case {
        /// Folder of the case.
        folder: PathBuf,
    },
    /// Answer one question (JSON on standard input); for the tests.
    #[command(hide = true)]
    Predict,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Differential(options) => differential::run(&options),
        Chore::AuditTrial(options) => audit_trial::run(&options),
        Chore::CrashTrial(options) => crash_trial::run(&options),
        Chore::TraceDifferential(options) => trace_differential::run(&options),
        Chore::Case { folder } => {
            let report =
                Case::read(&folder)?.run(&Predictor::new(&std::env::current_exe()?)?.path())?;
            print!("{report}");
            Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Chore::Predict => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            let question: Question = serde_json::from_str(&text)?;
            println!("{}", serde_json::to_string(&question.answer()?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
