//! Measures time, CPU time and memory of one run of a command.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use super::tools::Tool;

/// A home directory that does not exist and cannot be created.
pub(super) const NO_HOME: &str = "/dev/null/home";

/// Measurement of one run, including the command's children.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Taken {
    /// Wall-clock time.
    pub(crate) wall_ms: f64,
    /// CPU time in user mode, of all threads.
    pub(crate) user_ms: f64,
    /// CPU time in the kernel.
    pub(crate) sys_ms: f64,
}

impl Taken {
    pub(crate) fn cpu_ms(&self) -> f64 {
        self.user_ms + self.sys_ms
    }
}

/// Runs a tool and discards its output. Its exit status is ignored, because an unresolved library
/// makes each tool fail in its own way.
///
/// # Errors
/// Returns an error if the tool cannot be started.
pub(crate) fn once(tool: &Tool) -> Result<Taken> {
    let timed = timed(tool.command());
    Ok(timed.with_context(|| format!("{} cannot be started", tool.name))?.0)
}

/// Runs a command and discards its output. Returns the measurement and the exit status.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub(crate) fn timed(mut command: Command) -> Result<(Taken, ExitStatus)> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let before = children()?;
    let started = Instant::now();
    let status = command.status()?;
    let wall = started.elapsed();
    let after = children()?;
    let wall_ms = wall.as_secs_f64() * 1e3;
    Ok((Taken { wall_ms, user_ms: after.0 - before.0, sys_ms: after.1 - before.1 }, status))
}

/// Returns the seconds that a command takes; its output is discarded.
///
/// # Errors
/// Returns an error if the command cannot be started or fails.
pub(super) fn seconds(mut command: Command) -> Result<f64> {
    command.stdin(Stdio::null());
    let shown = format!("{command:?}");
    let (taken, status) = timed(command).with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(taken.wall_ms / 1e3)
}

/// Runs a command without its standard output. Returns the seconds, the maximum resident memory
/// (`VmHWM` of proc(5)) in bytes, read after each interval, and the status. Only the memory of the
/// process itself counts, not that of its children.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub(super) fn watched(command: &mut Command, interval: Duration) -> Result<(f64, u64, ExitStatus)> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let status_file = Path::new("/proc").join(child.id().to_string()).join("status");
    let mut peak = 0;
    loop {
        let text = std::fs::read_to_string(&status_file).unwrap_or_default();
        peak = high_water(&text).unwrap_or(0).max(peak);
        match child.try_wait()? {
            Some(status) => return Ok((began.elapsed().as_secs_f64(), peak, status)),
            None => std::thread::sleep(interval),
        }
    }
}

/// Returns the maximum resident memory of a tool in bytes, read twice per millisecond.
///
/// # Errors
/// Returns an error if the tool cannot be started.
pub(crate) fn peak_memory(tool: &Tool) -> Result<u64> {
    let watched = watched(tool.command().stderr(Stdio::null()), Duration::from_micros(500));
    Ok(watched.with_context(|| format!("{} cannot be started", tool.name))?.1)
}

/// Returns user and kernel time of all reaped children, in milliseconds.
fn children() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ms = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e3;
    Ok((ms(usage.user_time()), ms(usage.system_time())))
}

/// Parses the line `VmHWM:     1234 kB` of a status file of proc(5) into bytes.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        assert_eq!(high_water("VmPeak:\t 9 kB\nVmHWM:\t   1940 kB\n"), Some(1940 * 1024));
        assert_eq!(high_water("Name:\tx\n"), None);
    }
}
