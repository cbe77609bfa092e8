//! `becalm generate`: writes the manual pages, the reference of the book and the completions.

pub(crate) mod args;
pub(crate) mod command_line;
mod markdown;
pub(crate) mod run;
