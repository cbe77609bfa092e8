//! Loaders that read notes and package caches: the patches they are built with.

mod release;

pub use self::release::{NoPatch, Release};
