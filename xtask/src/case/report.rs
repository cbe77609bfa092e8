//! The result of a case in readable form.

use std::fmt;

use becalm_core::probe::{Attempt, Probe};

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The rule's name.
    pub name: String,
    /// The rule.
    pub rule: String,
    /// The model's probes.
    pub predicted: Vec<Probe>,
    /// The probes of `LD_DEBUG`, if requested.
    pub ld_debug: Vec<Probe>,
    /// The attempts that `strace` recorded, if requested.
    pub strace: Vec<Attempt>,
    /// All errors; empty if everything agrees.
    pub failures: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.rule)?;
        for (title, probes) in [("predicted", &self.predicted), ("LD_DEBUG", &self.ld_debug)] {
            writeln!(f, "  {title}")?;
            for p in probes {
                let (by, needed, path) = (&p.needed_by, &p.needed, &p.path);
                let (call, outcome, source) = (p.call, p.outcome, p.source);
                writeln!(f, "    {call:?} {path:?} {outcome:?}  {source:?} {by:?} {needed:?}")?;
            }
        }
        writeln!(f, "  strace")?;
        for a in &self.strace {
            writeln!(f, "    {:?} {:?} {:?}", a.call, a.path, a.outcome)?;
        }
        for failure in &self.failures {
            writeln!(f, "  FAILED {failure}")?;
        }
        Ok(())
    }
}
