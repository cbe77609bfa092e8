//! `becalm check --symbols`: which definition each symbol of a start binds to.

pub(crate) mod args;
pub(crate) mod text;
