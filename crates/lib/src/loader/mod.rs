//! Loaders that read complete notes and package caches.

pub mod check;
pub mod fixture;
