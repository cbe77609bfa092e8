//! Loaders that read notes and package caches: the patches they are built with.

pub mod check;
pub(crate) mod fixture;
pub mod release;

pub use self::release::{NoPatch, Release};
