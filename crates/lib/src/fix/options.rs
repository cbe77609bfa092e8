//! The options of a plan.

use std::path::PathBuf;

use becalm_core::fs::Mapping;
use becalm_core::strategy::Strategy;
use becalm_core::strategy::row::Unit;
use becalm_host::write::WriteOptions;

use crate::assume;

/// Returns the strategies that files can be fixed with: all but the index, which is beside them.
pub fn of_files() -> impl Iterator<Item = Strategy> {
    let changes_files = |it: &Strategy| !matches!(it.row().unit, Unit::Stores);
    Strategy::ALL.iter().copied().filter(changes_files)
}

/// The sources of the answers of the absolute strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Resolve {
    /// The static walk: works for any architecture, runs nothing.
    Static,
    /// The loader's own answers: the program's loader is run to list its objects.
    Loader,
}

/// The tools whose byte sequence a note can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Compat {
    /// Exactly what patchelf 0.19.3 `--build-resolution-cache` writes.
    Patchelf,
}

/// Options of a plan: the flags of `becalm fix`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Options {
    /// Programs, libraries, or folders of them
    #[cfg_attr(
        feature = "clap",
        arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)
    )]
    pub paths: Vec<PathBuf>,

    /// How the answers reach the loader
    // One of `of_files`.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "STRATEGY", value_parser = strategy_of_fix())
    )]
    pub with: Strategy,

    /// Show what would be written and what would be skipped; write nothing
    #[cfg_attr(feature = "clap", arg(short = 'n', long, help_heading = "Output"))]
    pub dry_run: bool,

    /// absolute: where the paths come from
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "HOW", default_value = "static", help_heading = "Strategy")
    )]
    pub resolve: Resolve,

    /// absolute: a further needed string that stays short, such as libcuda.so.1
    ///
    /// The C library, the loader and the GL stack stay short always.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NEEDED", help_heading = "Strategy"))]
    pub keep: Vec<String>,

    /// farm: give each object a directory of links to its own needed libraries (the default)
    // The name of the default: nothing reads it.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "closure", help_heading = "Strategy"))]
    pub leaf: bool,

    /// Answer for all libraries that a program loads; farm: this changes libraries outside PATH
    ///
    /// farm: one directory of links for the program and its libraries. It can exist for one program
    /// at a time. Every library of the program that is in a store is changed, also outside the
    /// named paths; those are printed. `becalm undo` of the same path restores them.
    ///
    /// ldcache: the cache of the program's package also answers for its libraries, because Guix's
    /// loader looks them up there. Nothing outside the named paths is changed.
    #[cfg_attr(
        feature = "clap",
        arg(long, conflicts_with = "prefix_map", help_heading = "Strategy")
    )]
    pub closure: bool,

    /// Apply a plan even if a start makes more failing calls with it
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Strategy"))]
    pub allow_more_misses: bool,

    /// note: a name that the object opens at run time, to add to the note
    ///
    /// Names in a .note.dlopen are added without this flag.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SONAME", help_heading = "Strategy"))]
    pub dlopen: Vec<String>,

    /// note: write exactly the bytes that another tool would
    #[cfg_attr(feature = "clap", arg(long, value_name = "TOOL", help_heading = "Strategy"))]
    pub compat: Option<Compat>,

    /// A package in its build directory, and its final path: run paths and answers below FINAL are
    /// searched below BUILD
    #[cfg_attr(feature = "clap", arg(long, value_name = "BUILD=FINAL", help_heading = "Strategy"))]
    pub prefix_map: Vec<Mapping>,

    /// How files are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub writing: WriteOptions,

    /// Assumptions about the machine.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub assume: assume::Options,
}

/// Parses the name of a strategy of `becalm fix`.
#[cfg(feature = "clap")]
#[must_use]
pub fn strategy_of_fix() -> impl clap::builder::TypedValueParser<Value = Strategy> {
    use clap::ValueEnum;
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let values = of_files().filter_map(|strategy| strategy.to_possible_value());
    PossibleValuesParser::new(values).try_map(|name| Strategy::from_str(&name, false))
}

impl Options {
    /// Returns the default options of a dry run with a strategy, without paths: the caller passes the targets.
    #[must_use]
    pub fn of(with: Strategy, leaf: bool, assume: assume::Options) -> Self {
        Self {
            paths: Vec::new(),
            with,
            resolve: Resolve::Static,
            keep: Vec::new(),
            leaf,
            closure: !leaf && matches!(with.row().unit, Unit::ObjectOrClosure(..)),
            allow_more_misses: false,
            dlopen: Vec::new(),
            compat: None,
            prefix_map: Vec::new(),
            dry_run: true,
            writing: WriteOptions::default(),
            assume,
        }
    }
}
