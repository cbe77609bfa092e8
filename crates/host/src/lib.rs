//! becalm-host: the real file system and the real loader.
//!
//! [`os_fs`] answers the loader models from the disk, [`walk`] finds the files to look at,
//! [`ask`] finds out what kind of loader a program names, [`oracle`] runs real loaders to compare
//! the models with, [`trace`] watches a program start, [`bench`] times it, and [`mount_namespace`] has copies
//! lie at the places of originals. On the main path it stands between the command line and
//! `becalm-core`, and is the only place that touches the machine; it imports nothing but the core.
//!
//! [`mod@write`] alone changes files, and only those it is given. The one thing that is started
//! unasked is a loader that passes the checks of [`ask`]; [`oracle`], [`trace`] and [`bench`]
//! start what they are told to.

#![deny(unsafe_code)]

pub mod ask;
pub mod bench;
pub mod child;
mod cpu;
pub mod detached;
pub mod error;
pub mod index_store;
pub mod mount_namespace;
pub mod oracle;
pub mod os_fs;
mod ranges;
pub mod static_tls;
pub mod trace;
pub mod walk;
pub mod write;

#[cfg(test)]
mod test_user;

pub use ask::{FactChoice, loader_facts};
pub use error::HostError;
pub use os_fs::{OsFs, OsSymbols, Session};
pub use walk::{Format, Found, WalkOptions, Walked, find_objects};
