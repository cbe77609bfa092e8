//! `becalm report`: makes one page about a program's start.

pub(crate) mod args;
pub(crate) mod html;
pub(crate) mod manual;
pub(crate) mod name;
pub(crate) mod observe;
pub(crate) mod record;
#[allow(clippy::module_inception, reason = "the report of the command report")]
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod survey;
