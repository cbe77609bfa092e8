//! The forms of `becalm check`'s output.

use anyhow::Result;
use becalm_core::closure::Closure;
use becalm_lib::check::{Document, Program};
use becalm_lib::json::as_json;
use becalm_lib::targets::{Problem, Targets};

use crate::check::args::CheckArgs;
use crate::check::{symbols, table, text, tree};
use crate::terminal::style::Look;
use crate::terminal::{Stdout, probes};

/// One form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The JSON document. A start can have a million probes.
    Json { probes: bool },
    /// The files that the starts need, each once.
    Files,
    /// The probes of each start, one a line.
    Probes,
    /// The tree of each file.
    Trees,
    /// The symbols of each program.
    Symbols,
    /// One screen about one program.
    Screen,
    /// Several programs, a row each.
    Table,
}

impl View {
    /// Returns the form that the flags ask for.
    pub(crate) fn of(args: &CheckArgs, targets: &Targets) -> Self {
        match (args.json, args.probes, args.tree) {
            (true, probes, _) => Self::Json { probes },
            _ if args.files.files => Self::Files,
            (_, true, _) => Self::Probes,
            (_, _, true) => Self::Trees,
            _ if args.symbols.is_asked() => Self::Symbols,
            _ if targets.is_one_file => Self::Screen,
            _ => Self::Table,
        }
    }

    /// True if the output of one program is too long to be kept for all programs.
    pub(crate) fn is_long(self) -> bool {
        !matches!(self, Self::Json { probes: false } | Self::Screen | Self::Table)
    }

    /// True if it says what helps a program.
    pub(crate) fn advises(self) -> bool {
        matches!(self, Self::Json { .. } | Self::Screen)
    }

    /// Returns what is between the outputs of two programs.
    pub(crate) fn between(self) -> &'static [u8] {
        match self {
            Self::Json { .. } => b",\n",
            Self::Trees | Self::Symbols | Self::Screen => b"\n",
            Self::Files | Self::Probes | Self::Table => b"",
        }
    }

    /// Returns the output of one program. It is called by several threads.
    pub(crate) fn program(
        self,
        look: Look,
        program: &mut Program,
        closure: Option<&Closure>,
    ) -> Vec<u8> {
        match self {
            Self::Json { .. } => {
                let written = as_json(program);
                program.probes = None;
                return written;
            }
            Self::Files | Self::Table => String::new(),
            Self::Probes => closure.map_or_else(String::new, |it| probes::lines(look, it.probes())),
            Self::Trees => tree::of(look, program, closure),
            Self::Symbols => symbols::text::screen(look, program),
            Self::Screen => text::screen(look, program, closure),
        }
        .into_bytes()
    }

    /// Writes what is before the first program.
    pub(crate) fn begin(self, out: &mut Stdout) -> Result<()> {
        match self {
            Self::Json { .. } => Ok(Document::begin(out)?),
            _ => Ok(()),
        }
    }

    /// Writes what joins all programs.
    pub(crate) fn end(
        self,
        out: &mut Stdout,
        look: Look,
        programs: Vec<Program>,
        errors: &[Problem],
    ) -> Result<()> {
        match self {
            Self::Json { .. } => Ok(Document::end(out, &programs, errors)?),
            Self::Table => Ok(table::write(out, look, programs)?),
            _ => Ok(()),
        }
    }
}
