//! Carriers: closure, or single objects, → [`Plan`]. Nothing is written here: a plan is data,
//! `becalm-rewrite` turns its [`crate::edit::Edit`]s into bytes and `becalm-host` writes them.
//!
//! | module | carrier |
//! | --- | --- |
//! | [`note`] | the resolution note of each object (`docs/note-format.md`) |
//! | [`absolute`] | each `DT_NEEDED` becomes an absolute path |
//! | [`farm`] | a directory of links an object, first in its run path |
//! | [`ldcache`] | `etc/ld.so.cache` at the root of each package |
//!
//! What they share: [`crate::search::store`] says which directories cannot change and may be skipped, `own`
//! answers a needed string from an object's own run path, whatever program it is loaded into,
//! [`planned`] follows a start as it would be with the plan carried out, and [`verify`] asks of
//! what is there whether it still says what the plain search gives.

pub mod absolute;
pub mod farm;
pub mod ldcache;
pub mod note;
mod own;
pub mod patchelf;
pub mod plan;
pub mod planned;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod verify;

pub use plan::{Creation, FilePlan, Finding, Plan, PlannedAnswer, Severity, What};
pub use settings::{Names, Settings};
pub use verify::{Checked, Strategy, Verdict};

use bstr::{BStr, BString};

use crate::fs::FileSystem;

/// The path of the file that a path leads to; the path itself where that cannot be told.
fn real_path(fs: &dyn FileSystem, path: &BStr) -> BString {
    fs.canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
