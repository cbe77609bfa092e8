//! The probes of each start.

use becalm_core::closure::Closure;
use becalm_lib::check::Program;

use crate::check::view::View;
use crate::terminal::probes::lines;
use crate::terminal::style::Look;

/// One line a probe.
pub(crate) struct Probes;

impl View for Probes {
    fn program(&self, look: Look, _: &mut Program, closure: Option<&Closure>) -> Vec<u8> {
        closure.map_or_else(String::new, |it| lines(look, it.probes())).into()
    }
}
