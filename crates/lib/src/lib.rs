//! becalm-lib: what becalm's commands do, below their arguments and their output.
//!
//! [`assume`] is what a prediction assumes of the machine, [`targets`] finds the files, [`launch`]
//! the programs behind scripts, [`follow`] predicts the start of one. [`check`] reports what a start
//! costs ([`check::starts`]: the starts of many files), [`survey`] what very many do, [`files`] which files it needs, [`mod@estimate`] how long
//! it takes ([`first_line`]), [`advice`] what each strategy would leave of it ([`advise`] with its commands), [`symbols`] what its symbols bind to. [`fix`]
//! plans a strategy, judges the plan by the programs' starts and applies it, [`undo`] reverts it,
//! [`verify`] compares what was applied with the search. [`index`] makes, reads, trusts and writes
//! index files ([`traced_run`]: of what a run searched), [`run`] finds the index of a start,
//! [`mod@env`] the variables of a session with one, [`doctor`] examines a session with one.
//! [`trace`] runs a program, watches its loader and compares that with the prediction, [`bench`] times starts, [`relocations`] their
//! symbol lookups, [`report`] collects the data
//! of a page, [`compare`] what `lab compare` and the demonstration share, [`cache`] what is kept beside indexes ([`trees`], [`pages`]). Long work shows itself by a [`progress::Progress`]; a report that is a [`json::Report`]
//! is the JSON document of its command ([`json::document`]).
//!
//! [`becalm_audit::MODULES`] are the audit modules that an index is put into.
//!
//! # Examples
//!
//! Predict what the loader of a program searches:
//!
//! ```
//! use becalm_lib::assume::{self, Assumptions};
//! use becalm_lib::check::starts::{Options, report};
//! use becalm_lib::progress::Silent;
//!
//! let assumed = Assumptions::new(&assume::Options::default())?;
//! let report = report(&assumed, &Options::default(), &[std::env::current_exe()?], &Silent);
//! let [program] = &report.programs[..] else { panic!("a program of this machine") };
//! println!("{} libraries, {} misses", program.libraries, report.total.misses());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Make an index of a store:
//!
//! ```
//! use becalm_lib::index::make::{Options, index};
//! use becalm_lib::progress::Silent;
//!
//! let dir = tempfile::tempdir()?;
//! let (store, output) = (dir.path().join("store"), Some(dir.path().join("index.so")));
//! std::fs::create_dir(&store)?;
//! std::fs::copy(std::env::current_exe()?, store.join("program"))?;
//! let options = Options { stores: vec![store], output, ..Options::default() };
//! let report = index(&options, &Silent)?;
//! println!("{} objects, {} answers, {} bytes", report.objects, report.edges, report.bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod trace;

pub mod advice;
pub mod advise;
pub mod ahead;
pub mod assume;
pub mod bench;
pub mod beside;
pub mod cache;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod elf_edits;
pub mod env;
pub mod escape;
pub mod estimate;
pub mod files;
pub mod first_line;
pub mod fix;
pub mod follow;
pub mod json;
pub mod launch;
pub mod loaded_index;
pub mod on;
pub mod packages;
pub mod pages;
pub mod path;
pub mod problem;
pub mod progress;
pub mod quick;
mod records;
pub mod relocations;
pub mod report;
pub mod run;
pub mod scratch;
pub mod scratch_index;
pub mod survey;
pub mod symbols;
pub mod targets;
pub mod traced_run;
pub mod trees;
pub mod undo;
pub mod verify;
pub mod words;
pub mod writing;

pub mod here;
pub mod index;
pub mod loader;
