//! becalm-lib: what becalm's commands do, below their arguments and their output.
//!
//! [`assume`] is what a prediction assumes of the machine, [`targets`] finds the files, [`follow`]
//! predicts the start of one. [`check`] reports what a start costs, [`advice`] what each strategy
//! would leave of that, [`symbols`] what its symbols bind to, [`fix`] plans a strategy and judges the
//! plan by the programs' starts,
//! [`index`] reads, trusts and writes index files. [`trace`] runs a program, watches its loader and
//! compares that with the prediction. [`progress`] is how a caller shows long work.
//!
//! [`index::MODULES`] are the audit modules that an index is put into, compiled from `audit/` by
//! the build script. [`loader::Release`] names the glibc releases that `patches/glibc/` has a
//! patch for.
//!
//! # Example
//!
//! Predict what the loader of a program searches:
//!
//! ```
//! use becalm_lib::check::{Verdict, check};
//! use becalm_lib::{assume, targets};
//!
//! let assumed = assume::Assumptions::new(&assume::Options::default())?;
//! let found = targets::find(&assumed, &[std::env::current_exe()?]);
//! let (verdict, _) = check(&assumed, &assumed.fs.session(), &found.files[0]);
//! let Verdict::Checked(program) = verdict else { panic!("a program of this machine") };
//! println!("{} libraries, {} misses", program.libraries, program.storm.misses());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod trace;

pub mod advice;
pub mod assume;
pub mod beside;
pub mod check;
pub mod escape;
pub mod fix;
pub mod follow;
pub mod json;
pub mod loaded_index;
pub mod path;
pub mod problem;
pub mod progress;
pub mod secure;
pub mod symbols;
pub mod targets;
pub mod undo;
pub mod verify;
pub mod words;
pub mod writing;

pub mod index;
pub mod loader;
