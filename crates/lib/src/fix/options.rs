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

/// Options of a plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// The files, or folders of them.
    pub paths: Vec<PathBuf>,
    /// The strategy, one of [`of_files`].
    pub with: Strategy,
    /// `absolute`: where the paths come from.
    pub resolve: Resolve,
    /// `absolute`: further needed strings that stay short.
    pub keep: Vec<String>,
    /// `farm` and `ldcache`: answers for all libraries that a program loads.
    pub closure: bool,
    /// True if a plan is applied even if a start makes more failing calls with it.
    pub allow_more_misses: bool,
    /// `note`: names that the objects open at run time.
    pub dlopen: Vec<String>,
    /// `note`: the tool whose byte sequence the note has.
    pub compat: Option<Compat>,
    /// Packages in their build directories, and their final paths.
    pub prefix_map: Vec<Mapping>,
    /// True if nothing is written.
    pub dry_run: bool,
    /// How files are written, or would be.
    pub writing: WriteOptions,
    /// Assumptions about the machine.
    pub assume: assume::Options,
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
