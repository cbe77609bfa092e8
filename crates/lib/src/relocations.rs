//! The relocation of a program's start, as its loader times and counts it (`LD_DEBUG=statistics`), and the
//! phases of another start, by the times of the loader's messages.
//!
//! The program is started a few times for this alone and killed at its entry point. Its loader and
//! the constructors of its libraries run, and nothing of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::{Duration, SystemTime};

use becalm_core::record::audit_log::{self, Bindings};
use becalm_core::record::phases::{self, Phases};
use becalm_core::record::statistics::{self, Statistics};
use becalm_host::loader_clock::LoaderClock;
use becalm_host::trace::{Command, Entered, Entry, Streams, stamped, time_to_entry};
use serde::{Deserialize, Serialize};

use crate::index::variables::{SWITCHES, with_switch};
use crate::loaded_index::IndexedBindings;

/// Starts that are timed.
const STARTS: usize = 3;

/// Standard error, as the file that the audit module opens for its log.
const STDERR: &str = "/proc/self/fd/2";

/// The relocation of one start. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Relocations {
    /// The time from the `execve` to the entry point: the median of a few starts. The rest is of the same start.
    pub loader_ns: u64,
    /// Of that, the time of relocation; none on machines on which glibc does not time itself (x86_64
    /// does).
    pub ns: Option<u64>,
    /// Symbols that the loader looked up.
    pub lookups: u64,
    /// Relocations that use the symbol of the lookup before.
    pub cached: u64,
    /// Relative relocations.
    pub relative: u64,
    /// The bindings that an index applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<IndexedBindings>,
    /// The phases of the fastest of three more starts, if the loader writes about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// Why the module of an index left the bindings to the loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_applied: Option<String>,
}

impl Relocations {
    /// Returns the time of relocation in another start, whose loader took `loader_ns`.
    #[must_use]
    pub fn part_of(&self, loader_ns: u64) -> Option<u64> {
        let part = self.ns? as f64 / self.loader_ns.max(1) as f64;
        Some((part.min(1.0) * loader_ns as f64) as u64)
    }
}

/// Starts a command up to its entry point and measures; `None` if its loader tells nothing: it is
/// static, not glibc's, set-id, or has something else to tell (`LD_DEBUG`), or nobody may be traced
/// here.
#[must_use]
pub fn measure(command: &Command, limit: Duration) -> Option<Relocations> {
    let environment = command.env.clone().unwrap_or_else(|| std::env::vars_os().collect());
    let is_set = |name: &str| environment.iter().any(|(known, _)| known == name);
    if is_set("LD_DEBUG") || is_set("LD_DEBUG_OUTPUT") {
        return None;
    }
    let start = Start { command, environment, limit };
    // The log's lines take time, so this start is not timed. It warms the caches.
    let (_, log) = start.enter(logged(&start.environment, STDERR.as_ref()))?;
    let decision = audit_log::bindings(&log);
    let mut timed = (0..STARTS).map(|_| start.timed()).collect::<Option<Vec<_>>>()?;
    timed.sort_by_key(|(one, _)| one.loader_ns);
    let (mut median, clock) = timed.swap_remove(STARTS / 2);
    // What disturbs a start makes it longer.
    let phases = (0..STARTS).filter_map(|_| start.phases()).min_by_key(|it| it.loader_ns);
    median.phases = phases.map(|phases| match (clock, median.ns) {
        ([Some(total), Some(loading)], Some(ns)) => {
            phases.with_times(median.loader_ns, total, [loading, ns])
        }
        _ => phases,
    });
    match decision {
        Some(Bindings::Applied { bound, relocations }) => {
            median.bindings = Some(IndexedBindings { bound, relocations });
        }
        Some(Bindings::Declined(why)) => median.not_applied = Some(why),
        None => {}
    }
    Some(median)
}

/// The module's switches with a log.
#[must_use]
pub fn logged(environment: &[(OsString, OsString)], log: &Path) -> (OsString, OsString) {
    let known = environment.iter().find(|(name, _)| name == SWITCHES);
    let mut switch = OsString::from("log:");
    switch.push(log);
    (SWITCHES.into(), with_switch(known.map(|(_, value)| value.as_os_str()), &switch))
}

/// A command that is started a few times.
struct Start<'a> {
    command: &'a Command,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
}

impl Start<'_> {
    /// Starts it with a variable set, up to its entry point. The result has the time and the text on
    /// standard error. This is a file without a name: nothing is left if becalm is interrupted.
    fn enter(&self, variable: (OsString, OsString)) -> Option<(Duration, Vec<u8>)> {
        let mut stderr = tempfile::tempfile().ok()?;
        let entry = self.enter_with(variable, stderr.try_clone().ok()?)?;
        let mut written = Vec::new();
        stderr.rewind().and_then(|()| stderr.read_to_end(&mut written)).ok()?;
        Some((entry.time, written))
    }

    fn enter_with(&self, (name, value): (OsString, OsString), stderr: File) -> Option<Entry> {
        let others = self.environment.iter().filter(|(known, _)| *known != name);
        let command = Command {
            env: Some(others.cloned().chain([(name.clone(), value)]).collect()),
            streams: Some(Streams::with_stderr(stderr).ok()?),
            ..self.command.clone()
        };
        match time_to_entry(&command, self.limit) {
            Ok(Entered::After(entry)) => Some(entry),
            _ => None,
        }
    }

    /// Starts it with the loader's messages about its work.
    fn phases(&self) -> Option<Phases> {
        let (stderr, stamped) = stamped().ok()?;
        let entry = self.enter_with(("LD_DEBUG".into(), "files,reloc".into()), stderr);
        let texts = stamped.finish().into_iter();
        let Entry { time, exec, began, faults } = entry?;
        let since = |at: SystemTime| ns(at.duration_since(began).unwrap_or_default());
        let texts: Vec<_> = texts.map(|(at, text)| (since(at), text)).collect();
        let phases = phases::parse(&texts, ns(time))?;
        Some(Phases { exec_ns: ns(exec), page_faults: faults, ..phases })
    }

    /// Returns the relocation of a start, and two times of its loader: the whole, and that of loading the objects.
    fn timed(&self) -> Option<(Relocations, [Option<u64>; 2])> {
        let clock = LoaderClock::now();
        let (time, written) = self.enter(("LD_DEBUG".into(), "statistics".into()))?;
        let counts = statistics::parse(&written)?;
        let Statistics { total, relocation, loading, lookups, cached, relative } = counts;
        let [total, relocation, loading] =
            [total, relocation, loading].map(|ticks| clock.duration(ticks?));
        let scaled = |part: Option<Duration>| Some(ns(part? * scale(total?, time)));
        let (loader_ns, ns) = (ns(time), scaled(relocation));
        let timed =
            Relocations { loader_ns, ns, lookups, cached, relative, ..Relocations::default() };
        Some((timed, [scaled(total), scaled(loading)]))
    }
}

/// Returns a time in nanoseconds.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The factor for the loader's times: it prints them without their last digit (see [`Statistics`]).
/// A loader that prints all digits is recognised if ten times its whole time is longer than the
/// start.
fn scale(total: Duration, start: Duration) -> u32 {
    if total * 10 <= start.mul_f64(1.05) { 10 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_another_start_is_not_larger_than_that_start() {
        let half = Relocations { loader_ns: 40, ns: Some(20), ..Relocations::default() };
        assert_eq!(half.part_of(10), Some(5));
        assert_eq!(Relocations { ns: Some(90), ..half }.part_of(10), Some(10));
    }

    #[test]
    fn a_time_without_its_last_digit_is_ten_times_as_long() {
        let ms = Duration::from_millis;
        assert_eq!(scale(ms(20), ms(240)), 10);
        assert_eq!(scale(ms(200), ms(240)), 1);
    }
}
