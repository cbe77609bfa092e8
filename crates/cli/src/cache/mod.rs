//! `becalm cache`: what starts have left on this machine's disk of trees on network file systems.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
