//! Reports from logs of the audit module, without a run (`becalm trace --from`).

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use becalm_core::probe::Probe;
use becalm_core::record::audit_log::{self, AuditedProcess};
use becalm_host::open_stream;
use bstr::BString;
use serde::Serialize;

use crate::json::{self, lossy};
use crate::path::at;

/// The processes of a log: the JSON document of `becalm trace --from`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Always true: nothing was run.
    pub from_log: bool,
    /// Always true: a log has no stats, no system calls and no times.
    pub opens_alone: bool,
    /// One for each process.
    pub images: Vec<Logged>,
}

json::schema!(Report, "becalm/trace/1");

/// One process of a log.
#[derive(Clone, Debug, Serialize)]
pub struct Logged {
    /// Its program; empty if it made no lookup.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Its process id.
    pub pid: u32,
    /// The number of its lookups.
    #[serde(rename = "questions")]
    pub lookups: usize,
    /// The number of those that the index answered.
    pub answered: usize,
    /// Attempts that found nothing.
    pub missed_opens: usize,
    /// The attempts ([probes](#probe)).
    pub probes: Vec<Probe>,
}

/// Reads a log.
///
/// # Errors
/// Returns an error if the file cannot be read or has no line of the module.
pub fn read(log: &Path) -> Result<Report> {
    let mut bytes = Vec::new();
    open_stream(log).and_then(|mut log| log.read_to_end(&mut bytes)).with_context(at(log))?;
    let images: Vec<Logged> = audit_log::parse(&bytes).iter().map(Logged::of).collect();
    if images.is_empty() {
        bail!("{}: not a log of the audit module (BECALM=log:FILE)", log.display());
    }
    Ok(Report { from_log: true, opens_alone: true, images })
}

impl Logged {
    fn of(process: &AuditedProcess) -> Self {
        let first = process.lookups.first();
        let probes = process.probes();
        Self {
            path: first.map(|lookup| lookup.needed_by.clone()).unwrap_or_default(),
            pid: process.pid,
            lookups: process.lookups.len(),
            answered: process.lookups.iter().filter(|it| it.answer.is_some()).count(),
            missed_opens: probes.iter().filter(|probe| probe.outcome.is_failed_call()).count(),
            probes,
        }
    }
}
