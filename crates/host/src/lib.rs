//! The real file system and real loaders, for becalm.
//!
//! [`os_fs`] reads the disk for the loader models. [`walk`] finds objects in folders. [`ask`]
//! determines the loader of a program. [`oracle`] runs real loaders, to compare the models with
//! them. [`trace`] traces a program's start, and [`bench`] measures it. This crate is the only one that
//! touches the machine, and it depends on `becalm-core` alone.
//!
//! Only [`mod@write`] changes files, and only those that it is given. Without an explicit command,
//! this crate starts only loaders that pass the checks of [`ask`]. [`oracle`], [`trace`] and
//! [`bench`] start the programs that they are given.
//!
//! # Example
//!
//! Make an index of a program's own needed strings:
//!
//! ```
//! use becalm_host::OsFs;
//! use becalm_host::index_store::{IndexOptions, index_stores};
//!
//! let files = [std::env::current_exe()?.canonicalize()?];
//! let options = IndexOptions { files: &files, ..IndexOptions::default() };
//! let indexed = index_stores(&OsFs::new(), options);
//! for machine in &indexed.machines {
//!     println!("{} objects for {:?}", machine.index.objects.len(), machine.target);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod ask;
pub mod bench;
mod cache;
pub mod child;
pub mod confined;
mod cpu;
pub mod detached;
pub mod error;
mod facts;
mod filters;
mod fingerprint;
pub mod idle;
pub mod index_store;
pub mod inherited;
pub mod loader_clock;
pub mod local_socket;
pub mod oracle;
pub mod os_fs;
pub mod pages;
pub mod path;
pub mod path_table;
mod reader;
mod regular;
pub mod secure;
pub mod threads;
pub mod trace;
pub mod tree;
pub mod trust;
mod used;
mod volume;
pub mod walk;
pub mod write;

pub use ask::{FactChoice, loader_facts};
pub use cpu::running as processor;
pub use error::HostError;
pub use os_fs::{OsFs, OsSymbols, Session};
pub use regular::{open_regular, open_stream, read_regular};
pub use volume::volume_number;
pub use walk::{Format, Found, WalkOptions, Walked, find_objects};
