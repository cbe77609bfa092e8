//! Parts of `lab compare` that `becalm demo` and `becalm report --compare` share: a program that is
//! examined and copied into a store, the environment of its starts, and the table of a comparison.

pub mod apply;
pub mod comparison;
pub mod import;
pub mod program;
