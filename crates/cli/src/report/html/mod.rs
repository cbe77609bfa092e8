//! The page of `becalm report`: one file that loads nothing else, in particular nothing from the
//! network.
//!
//! [`view`] collects the results, [`timeline`] the times, and [`advice`] compares the strategies. [`picture`] draws
//! the search of the start and of the libraries opened at run time, and [`tree`] the closure. `templates/report.html`
//! inserts, formats and escapes the results.
//! The style and the script are separate files beside the template.

pub(crate) mod advice;
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
