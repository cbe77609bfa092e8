//! The misses of a traced start by their causes.

use bstr::{BStr, ByteSlice};

use super::Attributed;
use crate::closure::Closure;
use crate::cost::{Miss, Offenders, is_searched};
use crate::path;

impl Attributed {
    /// Counts the observed misses by their causes. The directory of a miss without a prediction is that
    /// of its path. `closure` must be the argument of [`super::attribute()`].
    #[must_use]
    pub fn offenders(&self, closure: &Closure) -> Offenders {
        let dirs: Vec<&BStr> = closure.load.probes.iter().map(|probe| probe.dir).collect();
        let both = self.probes.iter().zip(&self.predicted);
        let failed = both.filter(|(probe, _)| probe.outcome.is_failed_call());
        Offenders::charge(failed.map(|(probe, index)| {
            let path = probe.path.as_bstr();
            // A path without a prediction is charged to its own directory.
            let own = path::parent(path);
            let dir = index.and_then(|index| dirs.get(index).copied());
            let is_searched = dir.is_none_or(|dir| is_searched(probe.source, dir, path));
            Miss {
                directory: is_searched.then_some(dir.unwrap_or(own)),
                needed: probe.needed.as_ref(),
                object: probe.needed_by.as_ref(),
                source: probe.source,
                call: probe.call,
            }
        }))
    }
}
