//! `cargo xtask …`: the project's chores.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

/// Declares the subcommands. Each is a module of the library with `Options` and a function `run`,
/// which returns false for a finding.
macro_rules! chores {
    ($($(#[$attribute:meta])* $name:ident: $module:ident,)*) => {
        #[derive(Subcommand)]
        enum Chore {
            $($(#[$attribute])* $name(xtask::$module::Options),)*
        }

        impl Chore {
            fn run(&self) -> Result<bool> {
                match self {
                    $(Self::$name(options) => xtask::$module::run(options),)*
                }
            }
        }
    };
}

chores! {
    /// Compare the model with the real loader on many objects.
    Differential: differential,
    /// Compare predicted symbol bindings with the memory of real starts.
    BindingDifferential: binding_differential,
    /// Run the commands of README.md and the how-to pages and compare what they print.
    Documents: documents,
    /// Edit many real files in every way and compare each with its original.
    EditTrial: edit_trial,
    /// Edits real files in many orders, with strip, objcopy, eu-strip and patchelf between the edits.
    OrderTrial: order_trial,
    /// Start programs in random environments and compare with the model.
    EnvironmentTrial: environment_trial,
    /// Compare becalm trace with strace, with the model, and with untraced starts.
    TraceDifferential: trace_differential,
    /// Compare starts under the audit module with plain ones.
    AuditTrial: audit_trial,
    /// Compare every slot of starts with bindings from an index and without.
    BindingTrial: binding_trial,
    /// Compare becalm check --files with the files that strace sees a loader open.
    FilesDifferential: files_differential,
    /// Kill becalm fix and undo, or make a call fail, at each of their calls.
    CrashTrial: crash_trial,
    /// Edit roots of other machines by the static walk and start their programs.
    ForeignTrial: foreign_trial,
    /// Attach file systems elsewhere, swap images, make links, and compare starts with an index.
    IdentityTrial: identity_trial,
    /// Start programs while their records of pages are learned or damaged, and compare with plain starts.
    AheadTrial: ahead_trial,
    /// Start programs switched on by becalm on, and compare with plain starts.
    OnTrial: on_trial,
    /// Build one case and print the loader's probes and the model's.
    Case: case,
    /// Write the loader patch of each glibc release from its parts.
    Patches: patches,
    /// Compare file lookups that are answered from an index with the kernel's.
    PathsTrial: paths_trial,
    /// Edit a tree between starts that are answered from what was learned of it, and compare with plain ones.
    TreesTrial: trees_trial,
    /// Build patched loaders and try each, one case a rule.
    LoaderTrial: loader_trial,
    /// Run glibc's own tests of loading with and without the audit module
    GlibcTests: glibc_tests,
    /// Run glibc's own tests of loading with and without the patch.
    LoaderTests: loader_tests,
    /// Draw the picture of README.md from becalm's report of a start with and without an index.
    Picture: picture,
    /// Count the misses of imports of wheels from PyPI, without and with an index.
    WheelTrial: wheel_trial,
    /// Apply each loader patch to its source tree, without fuzz.
    CheckPatches: check_patches,
    /// Make one prediction; for the tests.
    #[command(hide = true)]
    Predict: predict,
}

fn main() -> Result<ExitCode> {
    Ok(if Arguments::parse().chore.run()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
