//! The JSON document of several programs.

use anyhow::Result;
use becalm_core::closure::Closure;
use becalm_lib::check::{Document, Program};
use becalm_lib::json::as_json;
use becalm_lib::targets::Problem;

use crate::check::view::View;
use crate::terminal::Stdout;
use crate::terminal::style::Look;

/// The document, with probes or without.
pub(crate) struct Json {
    /// Whether the probes are in it: a start can have a million.
    pub probes: bool,
}

impl View for Json {
    fn is_long(&self) -> bool {
        self.probes
    }

    fn advises(&self) -> bool {
        true
    }

    fn between(&self) -> &'static str {
        ",\n"
    }

    fn begin(&self, out: &mut Stdout) -> Result<()> {
        Ok(Document::begin(out)?)
    }

    fn program(&self, _: Look, program: &mut Program, _: Option<&Closure>) -> Vec<u8> {
        let written = as_json(program);
        program.probes = None;
        written
    }

    fn end(&self, out: &mut Stdout, _: Look, all: (Vec<Program>, &[Problem])) -> Result<()> {
        Ok(Document::end(out, &all.0, all.1)?)
    }
}
