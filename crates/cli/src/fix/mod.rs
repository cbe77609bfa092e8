//! `becalm fix`: plans, judges and writes a strategy into files.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
