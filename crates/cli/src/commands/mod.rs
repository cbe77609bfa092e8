//! One module a command: each takes its flags and gives an exit status.

pub(crate) mod beside;
pub(crate) mod check;
pub(crate) mod generate;
pub(crate) mod loader;
pub(crate) mod trace;
