//! Reports from logs of the audit module, without a run (`becalm trace --from`).

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use becalm_core::record::audit_log::{self, AuditedProcess};
use becalm_host::open_stream;
use serde::Serialize;

use crate::json;
use crate::path::at;

/// The processes of a log: the JSON document of `becalm trace --from`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Always true: nothing was run.
    pub from_log: bool,
    /// Always true: a log has no stats, no system calls and no times.
    pub opens_alone: bool,
    /// One for each process.
    pub images: Vec<AuditedProcess>,
}

json::schema!(Report, "becalm/trace/1");

/// Reads a log.
///
/// # Errors
/// Returns an error if the file cannot be read or has no line of the module.
pub fn read(log: &Path) -> Result<Report> {
    let mut bytes = Vec::new();
    open_stream(log).and_then(|mut log| log.read_to_end(&mut bytes)).with_context(at(log))?;
    let images = audit_log::parse(&bytes);
    if images.is_empty() {
        bail!("{}: not a log of the audit module (BECALM=log:FILE)", log.display());
    }
    Ok(Report { from_log: true, opens_alone: true, images })
}
