//! `becalm env`: prints the lines that give a session an index, or take it away.

pub(crate) mod args;
pub(crate) mod dialects;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
