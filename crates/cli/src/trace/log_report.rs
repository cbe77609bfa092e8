//! Content of a log of the audit module.

use becalm_core::probe::Probe;
use becalm_core::record::audit_log::AuditedProcess;
use bstr::BString;

/// One process of a log.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Path of its program, if it made any lookup.
    pub path: BString,
    /// Its process id.
    pub pid: u32,
    /// Number of its lookups.
    pub questions: usize,
    /// Lookups that the index answered.
    pub answered: usize,
    /// The probes.
    pub probes: Vec<Probe>,
}

impl Logged {
    pub(crate) fn of(process: &AuditedProcess) -> Self {
        let first = process.lookups.first();
        Self {
            path: first.map(|question| question.needed_by.clone()).unwrap_or_default(),
            pid: process.pid,
            questions: process.lookups.len(),
            answered: process.lookups.iter().filter(|q| q.answer.is_some()).count(),
            probes: process.probes(),
        }
    }

    /// Counts the probes that found nothing.
    pub(crate) fn misses(&self) -> usize {
        self.probes.iter().filter(|probe| probe.outcome.is_failed_call()).count()
    }
}
