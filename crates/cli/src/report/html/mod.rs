//! The page of `becalm report`: one file that needs nothing else, no network above all.
//!
//! [`view`] turns what was found into text and numbers, [`advice`] says what would help, [`grid`]
//! draws the storm, [`dlopen`] that of what is opened at run time, [`tree`] the closure;
//! `templates/report.html` puts them in their places and escapes every one of them. The style and
//! the script are files of their own beside the template.

pub(crate) mod advice;
pub(crate) mod dlopen;
pub(crate) mod format;
pub(crate) mod grid;
pub(crate) mod picture;
pub(crate) mod tree;
pub(crate) mod view;

use anyhow::{Context, Result};
use askama::Template;

use crate::report::html::view::Page;
use becalm_lib::compare::comparison::Comparison;
use becalm_lib::report::Report;

/// The page.
///
/// # Errors
/// The template cannot be filled in.
pub(crate) fn page(report: &Report, comparison: Option<&Comparison>) -> Result<String> {
    Page::of(report, comparison).render().context("the page cannot be made")
}

#[cfg(test)]
mod tests;
