//! One module a command: each takes its flags and gives an exit status. What several
//! share stands beside them: [`assume`], [`targets`], [`follow`].

pub(crate) mod advice;
pub(crate) mod assume;
pub(crate) mod bench;
pub(crate) mod beside;
mod calmed;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod env;
pub(crate) mod fix;
pub(crate) mod follow;
pub(crate) mod generate;
mod import;
pub(crate) mod index;
mod jobs;
pub(crate) mod loader;
mod making;
mod removing;
pub(crate) mod report;
pub(crate) mod run;
mod scratch;
mod secure;
pub(crate) mod targets;
pub(crate) mod trace;
pub(crate) mod undo;
pub(crate) mod verify;
pub(crate) mod verify_index;
pub(crate) mod writing;
