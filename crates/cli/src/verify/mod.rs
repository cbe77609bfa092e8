//! `becalm verify`: compares what `becalm fix` wrote, or an index, with the plain search.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod text;
