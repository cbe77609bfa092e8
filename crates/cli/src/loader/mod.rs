//! `becalm loader`: builds patched loaders and tests loaders.

pub(crate) mod args;
pub(crate) mod build;
pub(crate) mod manual;
pub(crate) mod minimal;
pub(crate) mod needs;
pub(crate) mod run;
pub(crate) mod source;
pub(crate) mod steps;
pub(crate) mod text;
