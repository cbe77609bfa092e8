//! `becalm check`: predicts which paths the start of each program searches, and which objects it
//! loads.

pub(crate) mod against;
pub(crate) mod args;
pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod manual;
pub(crate) mod ndjson;
pub(crate) mod probes;
pub(crate) mod run;
pub(crate) mod symbols;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod view;
