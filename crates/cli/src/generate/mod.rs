//! `becalm generate`: writes the manual pages and the completions.

pub(crate) mod args;
pub(crate) mod run;
