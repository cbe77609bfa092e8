//! The project's own chores, as a library so that the tests can use them.
//!
//! [`case`] builds the fixtures of `tests/cases/` and holds the model against the
//! loader on each; [`differential`] does so for the programs of a machine, of lab
//! stores and of foreign sysroots; [`predict`] is the model's side of both.

pub mod case;
pub mod differential;
pub mod predict;
