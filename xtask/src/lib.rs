//! The project's chores, as a library that its tests can use.
//!
//! [`case`] builds the fixtures of `tests/cases/` and compares the model with the loader on each.
//! [`differential`] does the same for the programs of a machine, of lab stores and of foreign
//! sysroots; [`predict`] makes the predictions of both. [`binding_differential`] compares predicted
//! symbol bindings with the memory of real starts. [`binding_trial`] compares starts with bindings from
//! an index with starts without. [`documents`] runs the commands of README.md and the
//! how-to pages. [`edit_trial`] edits many real files and compares each with its original.
//! [`files_differential`] compares the files of starts with those that `strace` sees.
//! [`environment_trial`] compares starts in random environments with the model. [`glibc_sources`]
//! names the trees of glibc that are built. [`order_trial`] makes edits in many orders, with other
//! tools between them. [`foreign_trial`] edits roots of other machines and starts
//! their programs. [`trace_differential`] compares the tracer with `strace` and the model.
//! [`trees_trial`] edits a tree between starts that are answered from what was learned of it.
//! [`wheel_trial`] counts the misses of imports of wheels.

pub mod ahead_trial;
pub mod audit_trial;
pub mod binding_differential;
pub mod binding_trial;
pub mod case;
pub mod check_patches;
mod command;
pub mod crash_trial;
pub mod difference;
pub mod differential;
pub mod documents;
pub mod edit_trial;
pub mod environment_trial;
pub mod files_differential;
pub mod foreign_trial;
pub mod glibc_sources;
pub mod glibc_tests;
pub mod identity_trial;
pub mod loader_tests;
pub mod loader_trial;
pub mod on_trial;
pub mod order_trial;
pub mod patches;
pub mod paths_trial;
pub mod picture;
pub mod predict;
mod root;
mod tally;
pub mod trace_differential;
pub mod trees_trial;
mod user;
mod walk;
pub mod wheel_trial;
