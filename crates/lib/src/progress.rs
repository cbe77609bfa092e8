//! How far a long piece of work is, and whether it is to end early.

use crate::problem::Problem;

/// Shows the progress of a command's phases.
pub trait Progress: Sync {
    /// Begins a phase of `total` pieces; it ends when the value is dropped.
    fn phase(&self, total: usize) -> Box<dyn Phase + '_>;

    /// Begins work of `total` pieces, whose parts have names ([`Phase::now`]).
    fn stages(&self, total: usize) -> Box<dyn Phase + '_> {
        self.phase(total)
    }

    /// Begins a phase of files that are found one by one.
    fn search(&self) -> Box<dyn Search + '_> {
        Box::new(Silent)
    }

    /// Called before the first file is written. From here on the caller must not end the process
    /// in the middle of the work, but by [`Self::is_interrupted`].
    fn begin_writing(&self) {}

    /// Called when the arguments are known to be right and the long part of the work begins.
    fn begin_work(&self) {}

    /// Returns true if the work is to end after the files that are being written.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Passes on what the user should know at once, about a file.
    fn remark(&self, _problem: &Problem) {}
}

/// One phase of the work.
pub trait Phase: Sync {
    /// One more piece is done. Called from any thread.
    fn tick(&self);

    /// Names what is being done.
    fn now(&self, _what: &str) {}
}

/// A phase whose total nobody knows beforehand.
pub trait Search: Sync {
    /// So many more files were looked at. Called from any thread.
    fn add(&self, files: usize);
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
    fn tick(&self) {}
}

impl Search for Silent {
    fn add(&self, _: usize) {}
}
