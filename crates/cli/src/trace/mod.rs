//! `becalm trace`: runs a program and records the file lookups of its loader.

pub(crate) mod args;
pub(crate) mod chrome;
pub(crate) mod classes;
pub(crate) mod from;
pub(crate) mod histogram;
pub(crate) mod manual;
pub(crate) mod places;
pub(crate) mod run;
pub(crate) mod text;
