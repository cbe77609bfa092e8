//! `becalm trace`: runs a program, watches its loader and compares that with the prediction.

pub mod foreign;
pub mod join;
pub mod notes;
pub mod observe;
pub mod options;
pub mod predict;
pub mod refused;
pub mod report;
pub mod untraced;
