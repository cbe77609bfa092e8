//! Runs a start under `LD_DEBUG=libs,files`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::{listed, not_found, passed_over};
use becalm_core::record::ld_debug::{ProcessRecord, Search, parse};
use bstr::{BString, ByteSlice};

use super::child::{self, Ended};
use super::{OracleError, Start, scratch};

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

/// Starts the object and reads its loader's log. Without a log (a static program, a loader other
/// than glibc's) there are no probes.
///
/// In secure-execution mode a loader writes no log; use `strace` of `becalm-testing` instead.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn ld_debug(start: &Start) -> Result<LdDebug, OracleError> {
    let failed = scratch(&start.object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    // The loader may run as another user, who must be able to create the log here.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).map_err(&failed)?;
    let mut extra: Vec<(OsString, OsString)> = vec![("LD_DEBUG".into(), "libs,files".into())];
    // Inside another root the scratch directory has no path.
    let to_file = start.root.is_none();
    if to_file {
        extra.push(("LD_DEBUG_OUTPUT".into(), dir.path().join("record").into()));
    }
    let ended = child::run(start, &start.command_line(), &start.whole_env(&extra), true)?;
    let record = if !to_file {
        without_errors(&ended.stderr)
    } else {
        let file = dir.path().join(format!("record.{}", ended.pid));
        match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        }
    };
    Ok(read(&record, &ended))
}

const FATAL: &[u8] = b"error while loading shared libraries: ";

/// Removes the loader's warnings and errors from its log, which goes to standard error inside
/// another root. They have no prefix and would count as the continuation of a name.
fn without_errors(stderr: &[u8]) -> Vec<u8> {
    let record = |line: &&[u8]| !line.starts_with(b"ERROR: ld.so: ") && !line.contains_str(FATAL);
    stderr.split_inclusive(|byte| *byte == b'\n').filter(record).collect::<Vec<_>>().concat()
}

fn read(record: &[u8], ended: &Ended) -> LdDebug {
    let (listed, missing) = (listed(&ended.stdout), not_found(&ended.stdout));
    let fatal = (!ended.success).then(|| ended.stderr.split_once_str(FATAL)).flatten();
    let fatal = fatal.map(|(_, text)| BString::from(text.trim_ascii_end()));
    let mut processes = parse(record);
    let own = processes.iter().position(|process| process.pid == ended.pid).unwrap_or(0);
    if own >= processes.len() {
        return LdDebug { probes: Vec::new(), searches: Vec::new(), listed, missing, fatal };
    }
    let mut process = processes.swap_remove(own);
    let absent: Vec<BString> = missing.iter().cloned().chain(passed_over(&ended.stderr)).collect();
    if let Some(text) = &fatal {
        set_fatal_outcome(&mut process, text);
    }
    let (probes, searches) = (process.probes(&absent), process.searches);
    LdDebug { probes, searches, listed, missing, fatal }
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
