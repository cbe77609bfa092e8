//! Programs outside of sessions: indexes of single programs, and programs that are switched on.

use serde::Serialize;

use crate::doctor::kept;
use crate::on;

/// Programs that have an index of their own, whatever the session uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alone {
    /// Indexes of single programs that `becalm run` made and keeps.
    pub kept: u64,
    /// Programs that `becalm on` has switched on, for this user or for all.
    pub switched_on: u64,
    /// Those of them that do not start by the index, or not as they were indexed.
    pub stale: u64,
}

impl Alone {
    /// Counts them.
    pub(super) fn count() -> Self {
        let kept = kept::files().len() as u64;
        let programs = [false, true].into_iter().flat_map(on::switched_on).flatten();
        let programs: Vec<on::Program> = programs.collect();
        let stale = programs.iter().filter(|program| program.fresh == Some(false)).count();
        Self { kept, switched_on: programs.len() as u64, stale: stale as u64 }
    }

    /// True if there are none.
    pub(super) fn is_empty(self) -> bool {
        self.kept == 0 && self.switched_on == 0
    }
}
