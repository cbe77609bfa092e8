//! `becalm run`: starts a program with an index.

pub(crate) mod args;
pub(crate) mod manual;
#[allow(clippy::module_inception, reason = "each command has a run.rs, this one as well")]
pub(crate) mod run;
pub(crate) mod warm;
mod with_pack;
