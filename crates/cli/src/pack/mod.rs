//! `becalm pack` and `becalm unpack`: what starts on network file systems need, in one file.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
