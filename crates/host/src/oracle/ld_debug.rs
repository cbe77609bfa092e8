//! A start under `LD_DEBUG=libs,files`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use becalm_core::probe::{Outcome, Probe};
use becalm_core::record::compare::{listed, not_found, passed_over};
use becalm_core::record::ld_debug::{ProcessRecord, Search, parse};
use bstr::{BString, ByteSlice};

use super::child::{self, Confined, Ended};
use super::{OracleError, Start, scratch};

/// What a loader said of one start.
#[derive(Clone, Debug)]
pub struct LdDebug {
    /// The opens of program start, in order.
    pub probes: Vec<Probe>,
    /// The searches they came from, those at run time included.
    pub searches: Vec<Search>,
    /// The files that the loader listed as loaded, itself included, in load order.
    pub listed: Vec<BString>,
    /// Needed strings the loader listed as not found.
    pub missing: Vec<BString>,
    /// Why the loader gave up, where it did: what follows "error while loading
    /// shared libraries: ".
    pub fatal: Option<BString>,
}

/// Starts the object and reads what its loader wrote. No record at all (a static
/// program, a loader that is not glibc's) gives no probes.
///
/// Secure-execution mode keeps a loader from writing any; use [`super::strace()`].
///
/// # Errors
/// The run could not be made or did not end in time.
pub fn ld_debug(start: &Start) -> Result<LdDebug, OracleError> {
    let failed = scratch(&start.object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).map_err(&failed)?;
    let mut extra: Vec<(OsString, OsString)> = vec![("LD_DEBUG".into(), "libs,files".into())];
    // From inside another root the scratch directory cannot be named.
    let to_file = start.root.is_none();
    if to_file {
        extra.push(("LD_DEBUG_OUTPUT".into(), dir.path().join("record").into()));
    }
    let confined = Confined { root: start.root.as_deref(), user: start.user.as_ref() };
    let ended = child::run(start, &start.command_line(), &start.whole_env(&extra), confined)?;
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

/// Inside another root the record goes to standard error. The loader's warnings and
/// last words carry no tag and would pass for the rest of a name: they are left out.
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
        mark_fatal(&mut process, text);
    }
    let (probes, searches) = (process.probes(&absent), process.searches);
    LdDebug { probes, searches, listed, missing, fatal }
}

/// The error a loader ends with says what became of the last try.
fn mark_fatal(process: &mut ProcessRecord, text: &BString) {
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
