//! becalm-core: what the dynamic loader would do, told without running it.
//!
//! Pure: bytes and a [`fs::FileSystem`] in, probes and a closure out. No file is
//! opened, no variable of the environment is read and no process is started here;
//! `becalm-host` brings those.
//!
//! The main path: [`closure::resolve`] → [`loader`] → [`search`] → [`fs`] and
//! [`elf`], with every attempt recorded as a [`probe::Probe`] and counted by
//! [`cost`]. [`record`] turns what real loaders said into the same probes,
//! [`observe`] what a tracer saw. A [`strategy`] turns a closure into a plan, whose steps are
//! [`edit::Edit`]s.

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
