//! `becalm advise`: compares the strategies for one program.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
