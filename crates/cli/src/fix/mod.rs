//! `becalm fix`: plans a strategy, predicts its effect and writes it into files.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
