//! `cargo xtask …`: the project's chores.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::ahead_trial;
use xtask::audit_trial;
use xtask::binding_differential;
use xtask::binding_trial;
use xtask::case::{Case, Predictor};
use xtask::check_patches;
use xtask::crash_trial;
use xtask::differential::{self, Options};
use xtask::documents;
use xtask::edit_trial;
use xtask::environment_trial;
use xtask::files_differential;
use xtask::foreign_trial;
use xtask::glibc_tests;
use xtask::identity_trial;
use xtask::loader_tests;
use xtask::loader_trial;
use xtask::on_trial;
use xtask::order_trial;
use xtask::patches;
use xtask::paths_trial;
use xtask::picture;
use xtask::predict::Request;
use xtask::trace_differential;
use xtask::trees_trial;
use xtask::wheel_trial;

/// The project's chores.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Compare the model with the real loader on many objects.
    Differential(Options),
    /// Compare predicted symbol bindings with the memory of real starts.
    BindingDifferential(binding_differential::Options),
    /// Run the commands of README.md and the how-to pages and compare what they print.
    Documents(documents::Options),
    /// Edit many real files in every way and compare each with its original.
    EditTrial(edit_trial::Options),
    /// Edits real files in many orders, with strip, objcopy, eu-strip and patchelf between the edits.
    OrderTrial(order_trial::Options),
    /// Start programs in random environments and compare with the model.
    EnvironmentTrial(environment_trial::Options),
    /// Compare becalm trace with strace, with the model, and with untraced starts.
    TraceDifferential(trace_differential::Options),
    /// Compare starts under the audit module with plain ones.
    AuditTrial(audit_trial::Options),
    /// Compare every slot of starts with bindings from an index and without.
    BindingTrial(binding_trial::Options),
    /// Compare becalm check --files with the files that strace sees a loader open.
    FilesDifferential(files_differential::Options),
    /// Kill becalm fix and undo, or make a call fail, at each of their calls.
    CrashTrial(crash_trial::Options),
    /// Edit roots of other machines by the static walk and start their programs.
    ForeignTrial(foreign_trial::Options),
    /// Attach file systems elsewhere, swap images, make links, and compare starts with an index.
    IdentityTrial(identity_trial::Options),
    /// Start programs while their records of pages are learned or damaged, and compare with plain starts.
    AheadTrial(ahead_trial::Options),
    /// Start programs switched on by becalm on, and compare with plain starts.
    OnTrial(on_trial::Options),
    /// Build one case and print the loader's probes and the model's.
    Case {
        /// Folder of the case.
        folder: PathBuf,
    },
    /// Write the loader patch of each glibc release from its parts.
    Patches(patches::Options),
    /// Compare file lookups that are answered from an index with the kernel's.
    PathsTrial(paths_trial::Options),
    /// Edit a tree between starts that are answered from what was learned of it, and compare with plain ones.
    TreesTrial(trees_trial::Options),
    /// Build patched loaders and try each, one case a rule.
    LoaderTrial(loader_trial::Options),
    /// Run glibc's own tests of loading with and without the audit module
    GlibcTests(glibc_tests::Options),
    /// Run glibc's own tests of loading with and without the patch.
    LoaderTests(loader_tests::Options),
    /// Draw the picture of README.md from becalm's report of a start with and without an index.
    Picture(picture::Options),
    /// Count the misses of imports of wheels from PyPI, without and with an index.
    WheelTrial(wheel_trial::Options),
    /// Apply each loader patch to its source tree, without fuzz.
    CheckPatches(check_patches::Options),
    /// Make one prediction (JSON on standard input); for the tests.
    #[command(hide = true)]
    Predict,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Differential(options) => differential::run(&options),
        Chore::BindingDifferential(options) => binding_differential::run(&options),
        Chore::AheadTrial(options) => ahead_trial::run(&options),
        Chore::AuditTrial(options) => audit_trial::run(&options),
        Chore::BindingTrial(options) => binding_trial::run(&options),
        Chore::CrashTrial(options) => crash_trial::run(&options),
        Chore::Documents(options) => documents::run(&options),
        Chore::FilesDifferential(options) => files_differential::run(&options),
        Chore::EditTrial(options) => edit_trial::run(&options),
        Chore::OnTrial(options) => on_trial::run(&options),
        Chore::OrderTrial(options) => order_trial::run(&options),
        Chore::EnvironmentTrial(options) => environment_trial::run(&options),
        Chore::ForeignTrial(options) => foreign_trial::run(&options),
        Chore::TraceDifferential(options) => trace_differential::run(&options),
        Chore::Case { folder } => {
            let report =
                Case::read(&folder)?.run(&Predictor::new(&std::env::current_exe()?)?.path())?;
            print!("{report}");
            Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Chore::IdentityTrial(options) => identity_trial::run(&options),
        Chore::LoaderTrial(options) => loader_trial::run(&options),
        Chore::GlibcTests(options) => glibc_tests::run(&options),
        Chore::LoaderTests(options) => loader_tests::run(&options),
        Chore::PathsTrial(options) => paths_trial::run(&options),
        Chore::Patches(options) => patches::run(&options),
        Chore::CheckPatches(options) => check_patches::run(&options),
        Chore::Picture(options) => {
            picture::run(&options)?;
            Ok(ExitCode::SUCCESS)
        }
        Chore::TreesTrial(options) => trees_trial::run(&options),
        Chore::WheelTrial(options) => wheel_trial::run(&options),
        Chore::Predict => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            let request: Request = serde_json::from_str(&text)?;
            println!("{}", serde_json::to_string(&request.answer()?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
