//! becalm-core predicts the dynamic loader's search without running the loader.
//!
//! The crate is pure. Its input is bytes and a [`fs::FileSystem`], its output probes and a closure.
//! It opens no file, reads no environment variable and starts no process; `becalm-host` does.
//!
//! The main path is [`closure::resolve`] → [`loader`] → [`search`] → [`fs`] and [`elf`]. Each attempt
//! becomes a [`probe::Probe`], and [`cost`] counts them. [`record`] parses the same probes from the
//! records of real loaders, and [`observe`] from those of a tracer. A [`strategy`] makes a plan from
//! a closure, whose steps are [`edit::Edit`]s.

#![forbid(unsafe_code)]

pub mod closure;
pub mod cost;
pub mod edit;
pub mod elf;
pub mod facts;
pub mod fs;
pub mod index;
pub mod loader;
pub mod macho;
pub mod observe;
pub mod patch;
pub mod probe;
pub mod record;
pub mod search;
pub mod strategy;
pub mod symbols;
