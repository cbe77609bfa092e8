//! The [strategies](Strategy), which make a [`Plan`] from single objects or from a closure. A plan is data:
//! `becalm-rewrite` makes bytes from its [`crate::edit::Edit`]s, and `becalm-host` writes them.
//!
//! [`names`] lists them. They share these modules: [`crate::search::store`] defines the directories that cannot change
//! and may be skipped. `own` finds the answer of an object's own run path, which holds in every program.
//! [`planned`] predicts a start with an applied plan. [`verify`] compares the applied answers with the
//! plain search, by the [`row`] of each strategy.

pub mod absolute;
pub mod applied;
pub mod farm;
mod farm_place;
pub mod index;
pub mod ldcache;
pub mod names;
pub mod note;
mod own;
pub mod patchelf;
pub mod plan;
pub mod planned;
pub mod row;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod verify;

pub use names::Strategy;
pub use plan::{Created, FilePlan, Finding, FindingKind, Plan, PlannedAnswer, Severity};
pub use settings::Settings;
pub use verify::{Checked, Verdict};

use bstr::{BStr, BString};

use crate::fs::FileSystem;

/// Resolves the links in a path. Returns the path itself if that fails.
pub fn real_path(fs: &dyn FileSystem, path: &BStr) -> BString {
    fs.canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
