//! Tests of the strategies on an in-memory file system.

mod absolute;
mod farm;
mod ldcache;
mod note;
mod patchelf;
mod plan;
mod property;
mod verify;

use crate::closure::{Closure, ClosureError};
use crate::facts::Environment;
use crate::fs::FileSystem;
use crate::strategy::Plan;
use crate::strategy::planned::{self, Outlook, Planned};

impl Plan {
    /// Returns true if the plan changes nothing.
    fn is_empty(&self) -> bool {
        self.creations.is_empty() && self.files.iter().all(|file| file.edits.is_empty())
    }
}

impl Planned {
    /// Returns true if the program loads the same objects in the same order.
    fn is_equal(&self) -> bool {
        self.finding().is_none()
    }
}

/// Predicts a start with an applied plan.
fn planned(
    fs: &dyn FileSystem,
    before: &Closure,
    plan: &Plan,
    environment: &Environment,
) -> Result<Planned, ClosureError> {
    let outlook = Outlook::of(fs, plan);
    planned::planned(fs, &outlook.over(fs), before, absolute::LD_SO.into(), environment)
}
