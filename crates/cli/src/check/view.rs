//! The form of `becalm check`'s output: each has one file, and [`crate::check::run`] chooses.

use anyhow::Result;
use becalm_core::closure::Closure;
use becalm_lib::check::Program;
use becalm_lib::files::StartFile;
use becalm_lib::targets::Problem;

use crate::terminal::Stdout;
use crate::terminal::style::Look;

/// One form of the output. Programs are shown by several threads.
pub(crate) trait View: Sync {
    /// True if the output of one program is too long to be kept for all programs.
    fn is_long(&self) -> bool {
        true
    }

    /// True if it says what helps a program.
    fn advises(&self) -> bool {
        false
    }

    /// Returns what is between the outputs of two programs.
    fn between(&self) -> &'static str {
        ""
    }

    /// Writes what is before the first program.
    fn begin(&self, _out: &mut Stdout) -> Result<()> {
        Ok(())
    }

    /// Returns the output of one program.
    fn program(&self, _look: Look, _program: &mut Program, _closure: Option<&Closure>) -> Vec<u8> {
        Vec::new()
    }

    /// Returns the output of the files of a start, after those of the starts before.
    fn files(&self, _files: &[StartFile]) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Writes what joins all programs.
    fn end(&self, _out: &mut Stdout, _look: Look, _all: (Vec<Program>, &[Problem])) -> Result<()> {
        Ok(())
    }
}
