//! A start under `strace`: the system calls of the loader.

use std::ffi::OsString;
use std::fs;

use becalm_core::record::strace::{Attempt, Syscall, TRACED_CALLS, attempts, parse};
use bstr::{BString, ByteSlice};

use super::child;
use super::{Start, TruthError, Way, assignment, scratch};

/// What a tracer saw of one start.
#[derive(Clone, Debug)]
pub struct Strace {
    /// The calls of the process, after the last program it became.
    pub calls: Vec<Syscall>,
    /// What the program or its loader wrote to standard error.
    pub stderr: BString,
}

impl Strace {
    /// Opens and stats by name, in order.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        attempts(&self.calls)
    }
}

/// Starts the object under `strace` (which has to be installed) and reads its
/// system calls.
///
/// With [`Start::user`] the tracer stays what it is and only the traced process
/// becomes the user, so that set-id programs get their rights and their
/// secure-execution mode.
///
/// # Errors
/// The run could not be made or did not end in time, or the tracer failed.
pub fn strace(start: &Start) -> Result<Strace, TruthError> {
    let failed = scratch(&start.object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    let record = dir.path().join("record");
    let mut line: Vec<OsString> =
        ["strace", "-f", "-qq", "-xx", "--signal=none", "-e"].map(OsString::from).to_vec();
    line[0] = "/usr/bin/strace".into();
    line.push(format!("trace={TRACED_CALLS}").into());
    line.extend(["-o".into(), record.clone().into()]);
    if let Some(user) = &start.user {
        line.extend(["-u".into(), OsString::from(&user.name)]);
    }
    // The tracer is a dynamic program itself: the variables are for the child alone.
    for variable in start.direct_env(&[]) {
        line.extend(["-E".into(), assignment(&variable)]);
    }
    line.extend(start.command_line(&[]));
    let ended = child::run(start, &line, &[], None)?;
    let bytes = fs::read(&record).unwrap_or_default();
    let calls = parse(&bytes);
    if calls.is_empty() {
        let message = ended.stderr.to_str_lossy().into_owned();
        return Err(TruthError::Tracer { object: start.object.clone(), message });
    }
    Ok(Strace { calls: last_program(calls, &start.way), stderr: ended.stderr.into() })
}

/// The calls of the first process after its last successful `execve`; under an
/// emulator, after that has opened the guest's loader for itself.
fn last_program(calls: Vec<Syscall>, way: &Way) -> Vec<Syscall> {
    use becalm_core::record::strace::CallResult;
    let Some(pid) = calls.first().map(|call| call.pid) else { return calls };
    let mut own: Vec<Syscall> = calls.into_iter().filter(|call| call.pid == pid).collect();
    let started =
        |call: &Syscall| call.name == "execve" && matches!(call.result, CallResult::Ok(_));
    let mut from = own.iter().rposition(started).map_or(0, |at| at + 1);
    if let Way::Foreign { loader, .. } = way {
        let loader = loader.as_os_str().as_encoded_bytes();
        let opened = |call: &Syscall| call.path.as_ref().is_some_and(|path| path == loader);
        from += own[from..].iter().position(opened).map_or(0, |at| at + 1);
    }
    own.split_off(from)
}
