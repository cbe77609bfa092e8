//! becalm-core predicts the dynamic loader's search without running the loader.
//!
//! The crate is pure. Its input is bytes and a [`fs::FileSystem`], its output probes and a closure.
//! It opens no file, reads no environment variable and starts no process; `becalm-host` does.
//!
//! The main path is [`closure::resolve`] → [`loader`] → [`search`] → [`fs`] and [`elf`]. Each attempt
//! becomes a [`probe::Probe`], and [`cost`] counts them. [`record`] parses the same probes from the
//! records of real loaders, and [`observe`] from those of a tracer. A [`strategy`] makes a plan from
//! a closure, whose steps are [`edit::Edit`]s.
//!
//! # Example
//!
//! Predict what the loader of a program searches, here in an in-memory file system:
//!
//! ```
//! use becalm_core::closure::{Subject, resolve};
//! use becalm_core::facts::{Environment, GlibcVersion, Libc, LoaderFacts, Readers};
//! use becalm_core::fs::mem::{MemFs, ObjectBuilder};
//!
//! let program = ObjectBuilder::program().interpreter("/lib/ld.so").needed("libfoo.so");
//! let fs = MemFs::new()
//!     .object("/lib/ld.so", ObjectBuilder::library("ld.so"))
//!     .object("/lib/libfoo.so", ObjectBuilder::library("libfoo.so"))
//!     .object("/bin/program", program.runpath("/opt/lib"))
//!     .dir("/opt/lib");
//! let facts = LoaderFacts {
//!     libc: Libc::Glibc(GlibcVersion { major: 2, minor: 41 }),
//!     system_dirs: vec!["/lib/".into()],
//!     # cache_path: None,
//!     # lib: "lib".into(),
//!     # platform: None,
//!     # hwcaps: Vec::new(),
//!     # legacy_hwcaps: Vec::new(),
//!     # hwcap_mask: 0,
//!     # platform_bit: None,
//!     # reads: Readers::default(),
//!     # no_exec_stack: false,
//!     // and the loader cache, `$LIB`, `$PLATFORM`, hwcaps
//! };
//! let subject = Subject::open(&fs, "/bin/program".into())?;
//! let closure = resolve(&fs, subject, "/lib/ld.so".into(), facts, &Environment::default())?;
//! let opened: Vec<String> = closure.probes().map(|probe| probe.path.to_string()).collect();
//! assert_eq!(opened.last().map(String::as_str), Some("/lib/libfoo.so"));
//! # Ok::<(), becalm_core::closure::ClosureError>(())
//! ```

#![forbid(unsafe_code)]

pub mod closure;
pub mod cost;
pub mod edit;
pub mod elf;
pub mod facts;
pub mod fs;
pub mod index;
pub mod loader;
pub mod lossy;
pub mod macho;
pub mod observe;
pub mod patch;
pub mod path;
pub mod probe;
pub mod record;
pub mod search;
pub mod strategy;
pub mod symbols;
