//! `becalm undo`: restores the bytes that `becalm fix` replaced.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
