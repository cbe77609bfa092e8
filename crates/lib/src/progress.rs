//! How far a long piece of work is, for whoever shows it.

/// Shows the progress of a command's phases.
pub trait Progress: Sync {
    /// Begins a phase of `total` pieces; it ends when the value is dropped.
    fn phase(&self, total: usize) -> Box<dyn Phase + '_>;
}

/// One phase of the work.
pub trait Phase: Sync {
    /// One more piece is done. Called from any thread.
    fn tick(&self);
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
