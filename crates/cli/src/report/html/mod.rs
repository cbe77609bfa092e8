//! The page of `becalm report`: one file that loads nothing else, in particular nothing from the
//! network.
//!
//! [`view`] turns the results into text and numbers, [`timeline`] the times, and [`advice`] compares the
//! strategies.
//! [`grid`] draws the search of the start, [`dlopen`] draws the search for libraries opened at run
//! time, and [`tree`] draws the closure. `templates/report.html` inserts and escapes the results.
//! The style and the script are separate files beside the template.

pub(crate) mod advice;
pub(crate) mod dlopen;
pub(crate) mod format;
pub(crate) mod grid;
pub(crate) mod picture;
pub(crate) mod timeline;
pub(crate) mod tree;
pub(crate) mod view;

use anyhow::{Context, Result};
use askama::Template;

use crate::report::html::view::Page;
use becalm_lib::compare::comparison::Comparison;
use becalm_lib::report::Report;

/// Renders the page.
///
/// # Errors
/// Returns an error if the template cannot be rendered.
pub(crate) fn page(report: &Report, comparison: Option<&Comparison>) -> Result<String> {
    Page::of(report, comparison).render().context("the page cannot be made")
}

#[cfg(test)]
mod tests;
