//! The project's own chores, as a library so that the tests can use them.
//!
//! [`case`] builds the fixtures of `tests/cases/` and holds the model against the
//! loader on each; [`differential`] does so for the programs of a machine, of lab
//! stores and of foreign sysroots; [`predict`] is the model's side of both.
//! [`binding_differential`] compares predicted symbol bindings with the memory of real starts.
//! [`edit_trial`] edits many real files and holds each against its original.
//! [`environment_trial`] compares starts in random environments with the model.
//! [`foreign_trial`] edits roots of other machines and starts their programs.
//! [`trace_differential`] holds the tracer against `strace` and the model. [`wheel_trial`] counts
//! what imports of wheels miss.

pub mod audit_trial;
pub mod binding_differential;
pub mod case;
pub mod check_patches;
pub mod crash_trial;
pub mod differential;
pub mod edit_trial;
pub mod environment_trial;
pub mod foreign_trial;
pub mod glibc_tests;
pub mod loader_tests;
pub mod loader_trial;
pub mod patches;
pub mod predict;
mod root;
pub mod trace_differential;
pub mod wheel_trial;
