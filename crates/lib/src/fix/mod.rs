//! `becalm fix`: plans a strategy for files and judges the plan by the starts of their programs.

pub mod audit;
pub mod foresee;
pub mod judge;
pub mod loader;
pub mod options;
pub mod plan;
pub mod scope;
