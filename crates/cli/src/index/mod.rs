//! `becalm index`: writes an index of stores.

pub(crate) mod args;
pub(crate) mod current;
pub(crate) mod declining;
pub(crate) mod file;
pub(crate) mod manual;
pub(crate) mod module;
pub(crate) mod places;
pub(crate) mod platforms;
pub(crate) mod run;
pub(crate) mod text;
pub(crate) mod trust;
pub(crate) mod variables;
