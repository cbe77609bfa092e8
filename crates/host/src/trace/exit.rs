//! The exit of a program.

use serde::{Deserialize, Serialize};

/// The exit of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// The exit code.
    Code(u8),
    /// The signal that ended it.
    Signal(i32),
    /// Still running and no longer traced: [`super::Options::until_entry`].
    #[serde(skip)]
    Running,
    /// Killed at its first idle moment: [`super::Options::until_idle`].
    #[serde(skip)]
    Idle,
}

impl Exit {
    /// Returns the exit code that a shell would report: 128+n for a signal, `None` for a running
    /// or an idle program.
    #[must_use]
    pub fn code(self) -> Option<u8> {
        match self {
            Exit::Code(code) => Some(code),
            Exit::Signal(signal) => Some(128u8.saturating_add(u8::try_from(signal).unwrap_or(127))),
            Exit::Running | Exit::Idle => None,
        }
    }
}
