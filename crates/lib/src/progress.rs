//! The progress of long work, and its interruption.

use crate::problem::Problem;

/// Shows the progress of a command's phases.
pub trait Progress: Sync {
    /// Begins a phase of `total` pieces; it ends when the value is dropped.
    fn phase(&self, total: usize) -> Box<dyn Phase + '_>;

    /// Begins a phase of files whose number is not known in advance.
    fn search(&self) -> Box<dyn Phase + '_> {
        Box::new(Silent)
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

/// One phase of the work.
pub trait Phase: Sync {
    /// Counts more finished pieces. Called from any thread.
    fn add(&self, pieces: usize);

    /// Counts one more.
    fn tick(&self) {
        self.add(1);
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: usize) -> Box<dyn Phase + '_> {
        Box::new(Self)
    }
}

impl Phase for Silent {
    fn add(&self, _: usize) {}
}
