//! `becalm verify`: compares what `becalm fix` wrote, or an index, with the plain search.

pub(crate) mod args;
pub(crate) mod index;
pub(crate) mod index_report;
pub(crate) mod index_text;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod text;
