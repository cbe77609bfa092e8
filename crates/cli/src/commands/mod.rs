//! One module a command: each takes its flags and gives an exit status.

pub mod check;
pub mod generate;
