//! One run of one command: its time, its CPU time, its memory.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use super::tools::Tool;

/// How often the memory of a running process is looked at.
const LOOK: Duration = Duration::from_micros(500);

/// What one run took, children of the command included.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Taken {
    /// From start to end.
    pub(crate) wall_ms: f64,
    /// In user mode, all threads together.
    pub(crate) user_ms: f64,
    /// In the kernel.
    pub(crate) sys_ms: f64,
}

impl Taken {
    pub(crate) fn cpu_ms(&self) -> f64 {
        self.user_ms + self.sys_ms
    }
}

/// Runs a tool with its output thrown away. Its exit status is not judged: a file with
/// an unresolved library makes each of the tools fail in its own way.
///
/// # Errors
/// It cannot be started.
pub(crate) fn once(tool: &Tool) -> Result<Taken> {
    let timed = timed(tool.command());
    Ok(timed.with_context(|| format!("{} cannot be started", tool.name))?.0)
}

/// Runs a command with its output thrown away: what it took, and how it ended.
///
/// # Errors
/// It cannot be started.
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

/// Seconds from start to end of a command that succeeds, its output thrown away.
///
/// # Errors
/// It cannot be started, or it fails.
pub(super) fn seconds(mut command: Command) -> Result<f64> {
    command.stdin(Stdio::null());
    let shown = format!("{command:?}");
    let (taken, status) = timed(command).with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(taken.wall_ms / 1e3)
}

/// The most memory a tool has resident at once (`VmHWM` of proc(5)), in bytes, looked
/// at twice a millisecond; of the process itself, not of what it starts.
///
/// # Errors
/// It cannot be started.
pub(crate) fn peak_memory(tool: &Tool) -> Result<u64> {
    let mut command = tool.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn();
    let mut child = child.with_context(|| format!("{} cannot be started", tool.name))?;
    let status = Path::new("/proc").join(child.id().to_string()).join("status");
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        peak = high_water(&text).unwrap_or(0).max(peak);
        std::thread::sleep(LOOK);
    }
    Ok(peak)
}

/// User and kernel time of all children that have ended, in milliseconds.
fn children() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ms = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e3;
    Ok((ms(usage.user_time()), ms(usage.system_time())))
}

/// The line `VmHWM:     1234 kB` of a status file of proc(5), in bytes.
pub(super) fn high_water(status: &str) -> Option<u64> {
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
