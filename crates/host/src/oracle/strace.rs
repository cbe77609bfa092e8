//! A start under `strace`: the system calls of the loader.

use std::ffi::OsString;
use std::fs;

use becalm_core::record::strace::{Attempt, CallResult, Syscall, TRACED_CALLS, attempts, parse};
use bstr::{BString, ByteSlice};

use super::child::{self, Confined};
use super::{OracleError, Start, assignment, scratch};

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

/// Starts the object under `strace` (which has to be installed; so has perl, for
/// another root) and reads its system calls.
///
/// With [`Start::user`] the tracer stays what it is and only the traced process
/// becomes the user, so that set-id programs get their rights and their
/// secure-execution mode.
///
/// # Errors
/// The run could not be made or did not end in time, or the tracer failed.
pub fn strace(start: &Start) -> Result<Strace, OracleError> {
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
    line.extend(traced_line(start));
    let ended = child::run(start, &line, &[], Confined::default())?;
    let bytes = fs::read(&record).unwrap_or_default();
    let calls = parse(&bytes);
    if calls.is_empty() {
        let message = ended.stderr.to_str_lossy().into_owned();
        return Err(OracleError::Tracer { object: start.object.clone(), message });
    }
    Ok(Strace { calls: last_program(calls, start), stderr: ended.stderr.into() })
}

/// What the tracer starts. The tracer, and what changes root under it, are dynamic
/// programs themselves: the variables must reach the last program alone.
fn traced_line(start: &Start) -> Vec<OsString> {
    /// Arguments: root, how many variables, the variables, the command line.
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

/// The calls of the first process after its last successful `execve`. An emulator
/// opens the object, and the loader it names, before the loader's own first call:
/// all up to the last of those is left out.
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

/// True for a call on a path that looks like a loader's.
fn is_loader(call: &Syscall) -> bool {
    let name = call.path.as_ref().and_then(|path| path.rsplit_str(b"/").next());
    name.is_some_and(|name| {
        name.starts_with(b"ld-") || name.starts_with(b"ld64.so") || name.starts_with(b"ld.so")
    })
}
