//! `becalm env`: prints the lines that set up an index for a session, or remove it.

pub(crate) mod args;
pub(crate) mod dialects;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
