//! Content of a log of the audit module.

use becalm_core::probe::Probe;
use becalm_core::record::audit_log::AuditedProcess;
use bstr::BString;

/// One process of a log.
#[derive(Debug)]
pub(crate) struct Logged {
    /// Its program, where it asked anything.
    pub path: BString,
    /// Its process id.
    pub pid: u32,
    /// Questions it asked.
    pub questions: usize,
    /// Questions the index answered.
    pub answered: usize,
    /// The attempts.
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

    /// Attempts that found nothing.
    pub(crate) fn misses(&self) -> usize {
        self.probes.iter().filter(|probe| probe.outcome.is_failed_call()).count()
    }
}
