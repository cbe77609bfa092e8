//! `becalm demo`: shows the search, an index and the remaining search, in a scratch store.

pub(crate) mod args;
pub(crate) mod manual;
pub(crate) mod run;
