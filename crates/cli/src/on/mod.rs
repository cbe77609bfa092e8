//! `becalm on` and `becalm off`: programs that start by an index whenever they are called.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
