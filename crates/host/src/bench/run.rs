//! Measures one start.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{BenchError, Enter, Options, Until, Variant, caches};
use crate::child::{ends_within, kill_family, kill_tree, last_line};
use crate::idle::{self, Waited};
use crate::oracle::with_slash;
use crate::trace::{Command, Entered, TraceError, time_to_entry};
use crate::used::Used;

/// The time of one start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Wall-clock time, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time in user and kernel mode, in nanoseconds, of the program and those of its
    /// children that it waited for; 0 with [`Until::Entry`].
    pub cpu_ns: u64,
    /// Page faults that waited for the disk, of the same processes.
    pub major_faults: u64,
    /// Bytes that they had read from the disk.
    pub read_bytes: u64,
}

/// A command that is ready to start.
pub(super) struct Start {
    command: Command,
    file: PathBuf,
    enter: Option<Arc<Enter>>,
}

impl Start {
    /// Finds the file of a command.
    pub(super) fn new(variant: &Variant, options: &Options) -> Result<Self, BenchError> {
        let Variant { command, enter, .. } = variant.clone();
        let mut start = Self { command, file: PathBuf::new(), enter };
        start.enter()?;
        start.file = start.command.file()?;
        if options.until == Until::Entry {
            start.command.program = start.file.clone().into();
        }
        Ok(start)
    }

    /// Starts the command to see if it works. If it fails, the error has its last line of output.
    pub(super) fn trial(&self, options: &Options) -> Result<(), BenchError> {
        if options.until == Until::Entry {
            return self.once(options).map(drop);
        }
        // If no scratch file can be created, the program's output is discarded.
        let mut output = tempfile::tempfile().ok();
        let stderr = output.as_ref().and_then(|file| file.try_clone().ok());
        let (status, _) = self.to_end(options, stderr.map_or_else(Stdio::null, Stdio::from))?;
        self.check(status, options, || {
            let line = last_line(output.as_mut()?)?;
            Some(String::from_utf8_lossy(&line).into_owned())
        })
    }

    /// Starts the command for the measurement.
    pub(super) fn once(&self, options: &Options) -> Result<Taken, BenchError> {
        if options.cold {
            caches::drop(&options.cold_files)?;
        }
        match options.until {
            Until::Entry => self.to_entry(options.timeout),
            Until::Exit | Until::Idle => {
                let (status, taken) = self.to_end(options, Stdio::null())?;
                self.check(status, options, || None)?;
                Ok(taken)
            }
        }
    }

    fn to_entry(&self, limit: Duration) -> Result<Taken, BenchError> {
        self.enter()?;
        let no_entry = |why| BenchError::NoEntry { command: self.file.clone(), why };
        match time_to_entry(&self.command, limit)? {
            Entered::After(entry) => Ok(Taken { wall_ns: nanos(entry.time), ..Taken::default() }),
            Entered::NoLoader => Err(no_entry("no loader comes before its entry point")),
            Entered::Ended => Err(no_entry("it ended before its entry point was reached")),
            Entered::TooLong => Err(self.too_long(limit)),
        }
    }

    /// Starts the command until it ends or is idle. An idle one has no exit status.
    fn to_end(
        &self,
        options: &Options,
        stderr: Stdio,
    ) -> Result<(Option<ExitStatus>, Taken), BenchError> {
        let mut command = self.std_command();
        command.stderr(stderr);
        self.enter()?;
        let before = Used::by_children();
        let began = Instant::now();
        let mut child = command.spawn().map_err(|source| self.not_started(source))?;
        let waited = match options.until {
            Until::Idle => idle::wait(&mut child, options.timeout),
            _ => ends_within(&mut child, options.timeout)
                .map(|ended| if ended { Waited::Ended } else { Waited::TooLong }),
        };
        let waited = waited.map_err(|source| self.not_started(source))?;
        let wall = match waited {
            Waited::Ended => began.elapsed(),
            Waited::Idle(since) => since.saturating_duration_since(began),
            Waited::TooLong => {
                kill_family(&mut child);
                return Err(self.too_long(options.timeout));
            }
        };
        let is_idle = matches!(waited, Waited::Idle(_));
        if is_idle {
            kill_tree(child.id());
        }
        let status = child.wait().map_err(|source| self.not_started(source))?;
        let status = (!is_idle).then_some(status);
        let used = Used::by_children();
        let taken = Taken {
            wall_ns: nanos(wall),
            cpu_ns: nanos(used.cpu.saturating_sub(before.cpu)),
            major_faults: used.major_faults.saturating_sub(before.major_faults),
            read_bytes: used.read_bytes.saturating_sub(before.read_bytes),
        };
        Ok((status, taken))
    }

    fn enter(&self) -> Result<(), BenchError> {
        Ok(self.enter.as_ref().map_or(Ok(()), |enter| enter())?)
    }

    fn std_command(&self) -> std::process::Command {
        // A path without a slash would be searched for along PATH at each start.
        let mut command = self.command.of_std(&with_slash(&self.file));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn check(
        &self,
        status: Option<ExitStatus>,
        options: &Options,
        said: impl FnOnce() -> Option<String>,
    ) -> Result<(), BenchError> {
        let failed = |status: &ExitStatus| !status.success() && !options.accept_failure;
        let Some(status) = status.filter(failed) else { return Ok(()) };
        let command = self.file.clone();
        Err(BenchError::Failed { command, how: status.to_string(), said: said() })
    }

    fn not_started(&self, source: io::Error) -> BenchError {
        TraceError::failed(&self.file, "cannot be started", source).into()
    }

    fn too_long(&self, limit: Duration) -> BenchError {
        TraceError::TooLong { command: self.file.clone(), limit }.into()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
