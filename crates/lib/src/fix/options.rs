//! How files are planned.

use std::path::PathBuf;

use becalm_core::fs::Mapping;
use becalm_core::strategy::Strategy;

use crate::assume;

/// The strategies that files can be fixed with: all but the index, which is beside them.
pub const STRATEGIES: [Strategy; 5] =
    [Strategy::Note, Strategy::Absolute, Strategy::Farm, Strategy::Ldcache, Strategy::Audit];

/// The sources of the answers of the absolute strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Resolve {
    /// The static walk: works for any architecture, runs nothing.
    Static,
    /// The loader's own answer: the program's loader is run to list its objects.
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
    /// The way the answers are to reach the loader, one of [`STRATEGIES`].
    pub with: Strategy,
    /// `absolute`: where the paths come from.
    pub resolve: Resolve,
    /// `absolute`: further needed strings that stay short.
    pub keep: Vec<String>,
    /// `farm` and `ldcache`: answers for all that a program loads.
    pub closure: bool,
    /// Whether a plan is kept by which a start makes more failing calls.
    pub allow_more_misses: bool,
    /// `note`: names that the objects open at run time.
    pub dlopen: Vec<String>,
    /// `note`: whose byte sequence the note is to have.
    pub compat: Option<Compat>,
    /// Packages in their build directories, and where they will be.
    pub prefix_map: Vec<Mapping>,
    /// Assumptions about the machine.
    pub assume: assume::Options,
}

impl Options {
    /// A strategy, everything else as it is by default. It names no paths: what is planned is
    /// handed over apart.
    #[must_use]
    pub fn of(with: Strategy, leaf: bool, assume: assume::Options) -> Self {
        Self {
            paths: Vec::new(),
            with,
            resolve: Resolve::Static,
            keep: Vec::new(),
            closure: with == Strategy::Farm && !leaf,
            allow_more_misses: false,
            dlopen: Vec::new(),
            compat: None,
            prefix_map: Vec::new(),
            assume,
        }
    }
}
