//! `becalm check --files`: the files that a start needs.

pub(crate) mod args;
pub(crate) mod text;
