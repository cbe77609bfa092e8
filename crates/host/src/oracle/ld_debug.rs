//! Runs a start under `LD_DEBUG=libs,files`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::{listed, not_found, passed_over};
use becalm_core::record::ld_debug::{ProcessRecord, Search, parse};
use bstr::{BString, ByteSlice};

use super::child::{Ended, run};
use super::{OracleError, scratch};

/// The loader's output for one start.
#[derive(Clone, Debug)]
pub struct LdDebug {
    /// The opens of the program's start, in order.
    pub probes: Vec<Probe>,
    /// The searches of these opens, and those at run time.
    pub searches: Vec<Search>,
    /// The files that the loader listed as loaded, including itself, in load order.
    pub listed: Vec<BString>,
    /// Needed strings that the loader listed as not found.
    pub missing: Vec<BString>,
    /// The loader's fatal error, if there was one: the text after "error while loading shared
    /// libraries: ".
    pub fatal: Option<BString>,
}

/// Runs a command that starts a loader, and reads its log. Without a log (a static program, a loader
/// other than glibc's, secure-execution mode) there are no probes.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn ld_debug(
    mut command: Command,
    object: &Path,
    limit: Duration,
) -> Result<LdDebug, OracleError> {
    let failed = scratch(object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    // The loader may run as another user, who must be able to create the log here.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).map_err(&failed)?;
    command.env("LD_DEBUG", "libs,files").env("LD_DEBUG_OUTPUT", dir.path().join("record"));
    let ended = run(command, object, limit)?;
    match fs::read(dir.path().join(format!("record.{}", ended.pid))) {
        Ok(record) => Ok(LdDebug::read(&record, &ended)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(LdDebug::read(&[], &ended)),
        Err(error) => Err(failed(error)),
    }
}

/// The beginning of the loader's fatal error.
pub const FATAL: &[u8] = b"error while loading shared libraries: ";

impl LdDebug {
    /// Reads a loader's log and the rest of its output.
    #[must_use]
    pub fn read(record: &[u8], ended: &Ended) -> Self {
        let (listed, missing) = (listed(&ended.stdout), not_found(&ended.stdout));
        let fatal = (!ended.success).then(|| ended.stderr.split_once_str(FATAL)).flatten();
        let fatal = fatal.map(|(_, text)| BString::from(text.trim_ascii_end()));
        let mut processes = parse(record);
        let own = processes.iter().position(|process| process.pid == ended.pid).unwrap_or(0);
        if own >= processes.len() {
            return Self { probes: Vec::new(), searches: Vec::new(), listed, missing, fatal };
        }
        let mut process = processes.swap_remove(own);
        let absent: Vec<BString> =
            missing.iter().cloned().chain(passed_over(&ended.stderr)).collect();
        if let Some(text) = &fatal {
            set_fatal_outcome(&mut process, text);
        }
        let (probes, searches) = (process.probes(&absent), process.searches);
        Self { probes, searches, listed, missing, fatal }
    }
}

/// Sets the outcome of the last attempt from the error that ended the loader.
fn set_fatal_outcome(process: &mut ProcessRecord, text: &BString) {
    let Some(search) = process.searches.last_mut() else { return };
    let mapped = search.mapped;
    let Some(tried) = search.tries.last_mut() else { return };
    let of_file = text.strip_prefix(tried.path.as_slice()).is_some_and(|r| r.starts_with(b": "));
    if of_file {
        tried.said = Some(Outcome::NotElf);
    } else if !mapped && tried.said.is_none() {
        tried.said = Some(Outcome::Miss);
    }
}
