//! Counts of the starts that were answered, in the folder of records and copies. The processes that attend tables
//! add to them; `becalm cache` shows them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use becalm_host::tree::table::Table;
use becalm_host::trust;
use serde::{Deserialize, Serialize};

use crate::index::places::cache_writer as writer;
use crate::records::{self, Lock};
use crate::trees::record::Record;

/// The name of the file, and of its lock.
pub(super) const FILE: &str = "counts.json";
const LOCK: &str = "counts.lock";
/// The least time between two additions of a process: a job may end its processes at any moment.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a process asks for the lock, and the time between.
const ATTEMPTS: u32 = 50;
const WAIT: Duration = Duration::from_millis(20);

/// Counts since the folder was made, or cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The programs that were offered results of lookups.
    pub starts: u64,
    /// Those of them that took none, because no index binds them.
    pub declined: u64,
    /// The programs whose answers ended at a change on this machine.
    pub ended: u64,
    /// The lookups and opens that were answered.
    pub answers: u64,
    /// The files that were another one in the tree than their copy, each counted once for a table.
    pub stale: u64,
}

impl Counts {
    /// Counts the programs of a table. `copies` is what they were told of: its files with copies.
    pub(super) fn of(table: &Table, record: Option<&Record>, has_ended: bool) -> Self {
        let starts = table.programs();
        let known = record.iter().flat_map(|record| &record.paths).enumerate();
        let is_stale = |at: usize| matches!(table.kind(at), 1 | 2);
        let stale = known.filter(|(at, path)| path.copy.is_some() && is_stale(*at)).count() as u64;
        Self {
            starts,
            declined: if table.is_taken() { 0 } else { starts },
            ended: if has_ended { starts } else { 0 },
            answers: table.answers(),
            stale,
        }
    }

    /// Returns the counts of a folder.
    pub(super) fn read(folder: &Path) -> Self {
        let file = trust::open(&folder.join(FILE)).ok();
        file.and_then(|mut it| records::first(&mut it.file, 4096)).unwrap_or_default()
    }

    fn with(self, other: Self, add: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            starts: add(self.starts, other.starts),
            declined: add(self.declined, other.declined),
            ended: add(self.ended, other.ended),
            answers: add(self.answers, other.answers),
            stale: add(self.stale, other.stale),
        }
    }

    /// Returns the counts as Prometheus reads them from a file (text format 0.0.4).
    #[must_use]
    pub fn metrics(&self) -> String {
        let Self { starts, declined, ended, answers, stale } = self;
        let all = [
            ("starts", starts, "Programs that were offered results of lookups."),
            ("declined_starts", declined, "Programs that took no results: no index binds them."),
            ("ended_starts", ended, "Programs whose answers ended at a change on this machine."),
            ("answers", answers, "Lookups and opens that were answered."),
            ("stale_files", stale, "Files that differed from their copy, once for a table."),
        ];
        let mut text = String::new();
        for (name, count, help) in all {
            let (name, user) = (format!("becalm_{name}_total"), trust::user());
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            let _ = writeln!(text, "{name}{{uid=\"{user}\"}} {count}");
        }
        text
    }
}

/// The counts of a table that a process has added to those of its folder.
pub(super) struct Counter {
    folder: Option<PathBuf>,
    added: Counts,
    at: Instant,
}

impl Counter {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, added: Counts::default(), at: Instant::now() }
    }

    /// Adds what has come since the last time, unless that was a moment ago. Whether a program takes what it is
    /// offered is not known before the end.
    pub(super) fn update(&mut self, counts: impl FnOnce() -> Counts) {
        if self.at.elapsed() >= PAUSE {
            self.add(Counts { declined: 0, ..counts() });
        }
    }

    /// Adds what has come since the last time.
    pub(super) fn add(&mut self, counts: Counts) {
        self.at = Instant::now();
        let more = counts.with(self.added, u64::saturating_sub);
        if more != Counts::default()
            && self.folder.as_deref().and_then(|folder| add(folder, more)).is_some()
        {
            self.added = counts;
        }
    }
}

/// Adds to the counts of a folder; `None` if that fails.
fn add(folder: &Path, more: Counts) -> Option<()> {
    let _held = (0..ATTEMPTS).find_map(|attempt| {
        if attempt > 0 {
            thread::sleep(WAIT);
        }
        Lock::take(folder.join(LOCK)).ok()?
    })?;
    let counts = Counts::read(folder).with(more, u64::saturating_add);
    let text = serde_json::to_vec(&counts).ok()?;
    writer().replace(&folder.join(FILE), &text, 0o600).ok()
}
