//! The arguments of `becalm fix`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use becalm_core::fs::Mapping;
use becalm_core::strategy::Strategy;
use becalm_host::write::WriteOptions;
use becalm_lib::assume;
use becalm_lib::fix::options::Options;
use becalm_lib::fix::options::{Compat, Resolve};
use clap::{Args, ValueHint};

use crate::common_args::strategy_of_fix;

/// The flags of `becalm fix`.
#[derive(Debug, Args)]
pub(crate) struct FixArgs {
    /// Programs, libraries, or folders of them
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// How the answers reach the loader
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_of_fix())]
    pub with: Strategy,

    /// Show what would be written and what would be skipped; write nothing
    #[arg(short = 'n', long, help_heading = "Output")]
    pub dry_run: bool,

    /// Write one JSON object, schema becalm/fix/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// absolute: where the paths come from
    #[arg(long, value_name = "HOW", default_value = "static", help_heading = "Strategy")]
    pub resolve: Resolve,

    /// absolute: a further needed string that stays short, such as libcuda.so.1
    ///
    /// The C library, the loader and the GL stack stay short always.
    #[arg(long, value_name = "NEEDED", help_heading = "Strategy")]
    pub keep: Vec<String>,

    /// farm: give each object a directory of links to its own needed libraries (the default)
    #[arg(long, conflicts_with = "closure", help_heading = "Strategy")]
    pub leaf: bool,

    /// Answer for all libraries that a program loads; farm: this changes libraries outside PATH
    ///
    /// farm: one directory of links for the program and its libraries. It can exist for one program
    /// at a time. Every library of the program that is in a store is changed, also outside the
    /// named paths; those are printed. `becalm undo` of the same path restores them.
    ///
    /// ldcache: the cache of the program's package also answers for its libraries, because Guix's
    /// loader looks them up there. Nothing outside the named paths is changed.
    #[arg(long, conflicts_with = "prefix_map", help_heading = "Strategy")]
    pub closure: bool,

    /// Apply a plan even if a start makes more failing calls with it
    #[arg(long, help_heading = "Strategy")]
    pub allow_more_misses: bool,

    /// note: a name that the object opens at run time, to add to the note
    ///
    /// Names in a .note.dlopen are added without this flag.
    #[arg(long, value_name = "SONAME", help_heading = "Strategy")]
    pub dlopen: Vec<String>,

    /// note: write exactly the bytes that another tool would
    #[arg(long, value_name = "TOOL", help_heading = "Strategy")]
    pub compat: Option<Compat>,

    /// A package in its build directory, and its final path: run paths and answers below FINAL are
    /// searched below BUILD
    #[arg(long, value_name = "BUILD=FINAL", value_parser = prefix_map, help_heading = "Strategy")]
    pub prefix_map: Vec<Mapping>,

    /// How files are written.
    #[command(flatten)]
    pub writing: WriteOptions,

    /// Assumptions about the machine.
    #[command(flatten)]
    pub assume: assume::Options,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

fn prefix_map(text: &str) -> anyhow::Result<Mapping> {
    Mapping::parse(text.into())
        .ok_or_else(|| anyhow::anyhow!("not BUILD=FINAL, both absolute paths"))
}

impl FixArgs {
    /// Returns the library's options for the plan.
    pub(crate) fn options(&self) -> Options {
        Options {
            paths: self.paths.clone(),
            with: self.with,
            resolve: self.resolve,
            keep: self.keep.clone(),
            closure: self.closure,
            allow_more_misses: self.allow_more_misses,
            dlopen: self.dlopen.clone(),
            compat: self.compat,
            prefix_map: self.prefix_map.clone(),
            dry_run: self.dry_run,
            writing: self.writing,
            assume: self.assume.clone(),
        }
    }
}
