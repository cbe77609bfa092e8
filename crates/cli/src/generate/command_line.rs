//! The command line from which the pages and completions are generated.

/// The command line from which the pages and completions are generated.
pub(crate) struct CommandLine {
    /// The definition of the commands and their arguments.
    pub definition: fn() -> clap::Command,
    /// The sections of the manual of a command.
    pub manual_of: fn(&str) -> &'static [&'static str],
}
