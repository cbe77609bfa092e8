//! `becalm compare`: tries every strategy on a copy of a program's closure.

pub(crate) mod apply;
pub(crate) mod args;
pub(crate) mod column;
pub(crate) mod comparison;
pub(crate) mod figures;
pub(crate) mod footnotes;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod program;
pub(crate) mod run;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod trials;
