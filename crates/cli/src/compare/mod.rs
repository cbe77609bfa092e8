//! `becalm compare`: tries every strategy on a copy of a program's closure.

pub(crate) mod args;
pub(crate) mod footnotes;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod output;
pub(crate) mod run;
pub(crate) mod text;
