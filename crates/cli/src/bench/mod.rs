//! `becalm bench`: times the start of programs or environments against each other.

pub(crate) mod args;
pub(crate) mod csv;
pub(crate) mod distribution;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod output;
pub(crate) mod run;
pub(crate) mod text;
pub(crate) mod variants;
