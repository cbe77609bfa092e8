//! The row of a strategy: what it plans, who reads it, and how its answers are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use bstr::{BStr, BString};

use super::applied::{Applied, Verdict};
use super::plan::Plan;
use super::settings::Settings;
use crate::closure::{Closure, Subject};
use crate::facts::Format;
use crate::fs::FileSystem;

/// A strategy, as the commands know it. Its file has its row, and [`super::Strategy`] lists all.
pub struct Row {
    /// The unit that is planned at once, and the function that plans it.
    pub unit: Unit,
    /// The format that only patched loaders read; none if the answers are for every loader.
    pub format: Option<Format>,
    /// The file that it makes in each package. Its links are below [`super::farm::FARMS`].
    pub file: Option<PackageFile>,
    /// Compares the applied answers of an object, each with its needed string.
    pub verify: fn(&Applied<'_>) -> Vec<(BString, Verdict)>,
    /// Returns the package of answers that `verify` cannot compare, because its store is not named.
    pub unnamed: fn(&Applied<'_>) -> Option<BString>,
}

/// Plans one object.
type OfObject = fn(&dyn FileSystem, &Subject, &Settings) -> Plan;
/// The files that the loader itself opened for an object, by needed string (`--resolve loader`).
pub type LoaderAnswers = BTreeMap<BString, BString>;

/// The unit that a strategy plans at once.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Each object, by its own run path.
    Object(OfObject),
    /// Each object, by its own run path; with `--closure`, all objects of a program together.
    ObjectOrClosure(OfObject, fn(&dyn FileSystem, &Closure, &Settings) -> Plan),
    /// Each object, by its own start, with the answers of its closure or those of the loader.
    Start(fn(&dyn FileSystem, &Closure, Option<&LoaderAnswers>, &Settings) -> Plan),
    /// All objects of a package together; with `--closure`, with those that its programs load.
    Package(fn(&dyn FileSystem, &[Subject], &[&Closure], &Settings) -> Plan),
    /// A program, which gets an index of its start.
    Program,
    /// Whole stores, which get an index beside them; no file is changed.
    Stores,
}

/// A file that a strategy makes in a package.
pub struct PackageFile {
    /// Its path below the package's root.
    pub below: &'static str,
    /// Recognises its content.
    pub is_ours: fn(Arc<[u8]>) -> bool,
}

impl PackageFile {
    /// Returns the path of the file in a package.
    #[must_use]
    pub fn path_in(&self, root: &BStr) -> BString {
        [root.as_ref(), self.below.as_bytes()].join(&b'/').into()
    }
}

impl Unit {
    /// Returns true if an index has the answers.
    #[must_use]
    pub fn is_index(&self) -> bool {
        matches!(self, Self::Program | Self::Stores)
    }
}
