//! How files are planned.

use std::path::PathBuf;

use becalm_core::fs::Mapping;
use serde::Serialize;

use crate::assume;

/// The way a resolution reaches the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Strategy {
    /// A note in each object, for a loader that reads notes.
    Note,
    /// Absolute paths for needed strings, for any loader.
    Absolute,
    /// One directory of links an object, for any loader.
    Farm,
    /// A loader cache in each package, for a loader that reads those.
    Ldcache,
    /// A DT_AUDIT entry in a program, and an index of its start beside it, for glibc 2.32 on.
    Audit,
}

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
    /// The way the answers are to reach the loader.
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
