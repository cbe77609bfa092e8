//! `becalm fix`: plans, judges and writes a strategy into files.

pub(crate) mod args;
pub(crate) mod audit;
pub(crate) mod judge;
pub(crate) mod loader;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod text;
pub(crate) mod write;
