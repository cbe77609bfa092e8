//! Loaders that read complete notes and package caches, and their patches.

pub mod check;
pub mod fixture;
pub mod manual;
pub mod release;

pub use self::manual::without_manual;
pub use self::release::{NoPatch, Release};
