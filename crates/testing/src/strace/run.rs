//! Runs a start under `strace` and reads the loader's system calls.

use std::ffi::OsString;
use std::fs;
use std::io;

use becalm_core::probe::Attempt;

use bstr::{BString, ByteSlice};

use super::{CallResult, Syscall, TRACED_CALLS, attempts, parse};
use crate::oracle::{Start, TraceError, run, scratch};

/// The system calls of one start.
#[derive(Clone, Debug)]
pub struct Strace {
    /// The calls of the process after its last `execve`.
    pub calls: Vec<Syscall>,
    /// Standard error of the program or its loader.
    pub stderr: BString,
}

impl Strace {
    /// Returns opens and stats by name, in order.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        attempts(&self.calls)
    }
}

/// Starts the object under `strace` and reads its system calls. `strace` must be installed, and
/// perl too for another root.
///
/// With [`Start::user`] only the traced process becomes that user. The tracer keeps its rights, so
/// that set-id programs get theirs and run in secure-execution mode.
///
/// # Errors
/// Returns an error if the run fails to start, exceeds its time limit, or the tracer fails.
pub fn strace(start: &Start) -> Result<Strace, TraceError> {
    let failed = scratch(&start.object);
    let dir = tempfile::tempdir().map_err(&failed)?;
    let record = dir.path().join("record");
    // `-xx` prints paths as hexadecimal bytes, so that no byte needs quoting.
    let mut line: Vec<OsString> =
        ["strace", "-f", "-qq", "-xx", "--signal=none", "-e"].map(OsString::from).to_vec();
    line[0] = "/usr/bin/strace".into();
    line.push(format!("trace={TRACED_CALLS}").into());
    line.extend(["-o".into(), record.clone().into()]);
    if let Some(user) = &start.user {
        line.extend(["-u".into(), OsString::from(&user.name)]);
    }
    line.extend(traced_line(start));
    let stderr = BString::from(run(start, &line)?.stderr);
    let bytes = fs::read(&record).unwrap_or_default();
    let calls = parse(&bytes);
    if calls.is_empty() {
        return Err(failed(io::Error::other(format!("strace failed: {stderr}"))));
    }
    Ok(Strace { calls: last_program(calls, start), stderr })
}

/// Returns the command line for the tracer. The tracer and the program that changes the root are
/// dynamic programs themselves, so only the last program may get the variables.
fn traced_line(start: &Start) -> Vec<OsString> {
    /// Arguments: root, number of variables, variables, command line.
    const ENTER: &str = "my $root = shift; my $count = shift; \
        %ENV = map { split /=/, $_, 2 } splice @ARGV, 0, $count; \
        chroot $root or die $!; chdir '/'; exec { $ARGV[0] } @ARGV; die $!";
    let variables: Vec<OsString> = start.whole_env(&[]).iter().map(assignment).collect();
    let mut line: Vec<OsString> = Vec::new();
    if let Some(root) = &start.root {
        line.extend(["/usr/bin/perl".into(), "-e".into(), ENTER.into(), root.into()]);
        line.push(variables.len().to_string().into());
        line.extend(variables);
    } else {
        line.extend(variables.into_iter().flat_map(|variable| ["-E".into(), variable]));
    }
    line.extend(start.command_line());
    line
}

/// Returns the calls of the first process after its last successful `execve`. An emulator opens the
/// object and its loader before the loader's own first call; the calls up to the last of those are
/// removed.
fn last_program(calls: Vec<Syscall>, start: &Start) -> Vec<Syscall> {
    let Some(pid) = calls.first().map(|call| call.pid) else { return calls };
    let mut own: Vec<Syscall> = calls.into_iter().filter(|call| call.pid == pid).collect();
    let started =
        |call: &Syscall| call.name == "execve" && matches!(call.result, CallResult::Ok(_));
    let mut from = own.iter().rposition(started).map_or(0, |at| at + 1);
    if start.emulator.is_some() {
        from += own[from..].iter().position(is_loader).map_or(0, |at| at + 1);
    }
    own.split_off(from)
}

/// Returns true for a call on a path that is named like a loader.
fn is_loader(call: &Syscall) -> bool {
    let name = call.path.as_ref().and_then(|path| path.rsplit_str(b"/").next());
    name.is_some_and(|name| {
        name.starts_with(b"ld-") || name.starts_with(b"ld64.so") || name.starts_with(b"ld.so")
    })
}

/// Returns `NAME=VALUE`.
fn assignment((name, value): &(OsString, OsString)) -> OsString {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    text
}
