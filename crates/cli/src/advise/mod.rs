//! `becalm advise`: which strategy for a program.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
