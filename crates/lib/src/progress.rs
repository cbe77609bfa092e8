//! The progress of long work, and its interruption.

use crate::problem::Problem;

/// One phase of the work, which ends when the value is dropped. Counts more finished pieces, from any thread.
pub type Phase<'a> = dyn Fn(usize) + Sync + 'a;

/// Shows the progress of a command's phases; the defaults show nothing.
pub trait Progress: Sync {
    /// Begins a phase of so many pieces.
    fn phase(&self, _total: usize) -> Box<Phase<'_>> {
        Box::new(|_| {})
    }

    /// Begins a phase of files whose number is not known in advance.
    fn search(&self) -> Box<Phase<'_>> {
        Box::new(|_| {})
    }

    /// Called before the first file is written. From here on the caller must not end the process in
    /// the middle of the work, but only by [`Self::is_interrupted`].
    fn begin_writing(&self) {}

    /// Called when the arguments have been checked and the long part of the work begins.
    fn begin_work(&self) {}

    /// Returns true if the work must end after the files that are being written.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Reports a problem with a file at once.
    fn remark(&self, _problem: &Problem) {}
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {}
