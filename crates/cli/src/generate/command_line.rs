//! The command line that pages and completions are made of.

use crate::terminal::manual::Section;

/// The command line that pages and completions are made of.
pub(crate) struct CommandLine {
    /// The definition of the commands and their arguments.
    pub definition: fn() -> clap::Command,
    /// The sections of the manual of a command.
    pub manual_of: fn(&str) -> &'static [&'static Section],
}
