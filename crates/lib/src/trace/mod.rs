//! `becalm trace`: runs a program, records its loader's lookups and compares them with the
//! prediction.

pub mod join;
pub mod log;
pub mod notes;
pub mod observe;
pub mod options;
pub mod predict;
pub mod refused;
pub mod report;
pub mod untraced;
