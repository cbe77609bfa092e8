//! The report of `becalm trace`.

use std::collections::BTreeMap;

use becalm_core::cost::SearchCost;
use becalm_core::observe::offenders::Offenders;
use becalm_core::observe::tally::ClassLookups;
use becalm_core::observe::{Dlopen, SyscallRow};
use becalm_core::probe::Probe;
use becalm_host::trace::{Command, Exit, Overhead, Pages, Share, TimedLookup};
use bstr::BString;
use serde::{Deserialize, Serialize};

use crate::beside::Beside;
use crate::check::Program;
use crate::files::StartFile;
use crate::first_line::{FirstLine, Imports, Loader, MANY_CALLS};
use crate::json::{self, lossy, lossy_option};
use crate::loaded_index::IndexedBindings;
use crate::relocations::Relocations;
use crate::words::{counted, seconds};

/// A traced run: the JSON document of `becalm trace`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The command line.
    pub command: Vec<String>,
    /// One for each successful `execve`, the program last; with `--follow` also those of the
    /// processes that it started.
    pub images: Vec<Seen>,
    /// The exit of the program: `{"code": 0}` or `{"signal": 11}`; null if it is no longer traced.
    pub exit: Option<Exit>,
    /// True if the run ended at the program's first idle moment.
    #[serde(skip)]
    pub is_idle: bool,
    /// The cost of tracing on this machine, measured before the program starts; null if nothing was
    /// traced.
    pub overhead: Option<Overhead>,
    /// True if every system call was counted (`--syscalls`).
    pub all_syscalls: bool,
    /// True if the program ran untraced, because tracing is not permitted here: opens as in the
    /// output of `LD_DEBUG=libs`, no stats, no times.
    pub opens_alone: bool,
    /// Notes for a reader, a sentence each.
    pub notes: Vec<String>,
    /// Date, processor, kernel, file system of the program and becalm's version, for a reader; absent for a run
    /// without a tracer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
}

json::schema!(Report, "becalm/trace/1");

impl Report {
    /// Returns the first line about the last image, with the times of its start; `None` if nothing is
    /// known of them.
    #[must_use]
    pub fn first_line(&self) -> Option<FirstLine> {
        let seen = self.images.last()?;
        self.line_with(seen.loader.net_ns, seen.storm_ns)
    }

    /// Returns the first line about the last image, if its loader took these times, in all and for misses.
    pub(crate) fn line_with(&self, ns: u64, misses_ns: u64) -> Option<FirstLine> {
        let seen = self.images.last()?;
        let line = seen.checked.as_deref().map(FirstLine::of);
        if self.overhead.is_none() || seen.forked || !seen.reached_entry {
            return line;
        }
        let loader = Loader {
            ns,
            lookups_ns: seen.relocations.as_ref().and_then(|timed| timed.part_of(ns)),
            misses_ns,
            misses: seen.storm.misses(),
            is_measured: true,
        };
        let is_whole = self.exit.is_some() || self.is_idle;
        let whole = is_whole.then_some((ns + seen.program.net_ns, None));
        let unknown = || FirstLine { program: seen.path.to_string(), ..FirstLine::default() };
        let line = line.unwrap_or_else(unknown).with_measured(loader, whole);
        Some(FirstLine { until_idle: self.is_idle, imports: seen.imports(), ..line })
    }
}

impl Seen {
    /// Returns the calls of the interpreter that makes most of them, if they are many.
    fn imports(&self) -> Option<Imports> {
        let of_modules = self.classes.iter().filter(|class| class.class.is_of_modules());
        let most = of_modules.max_by_key(|class| class.lookups())?;
        let (ns, calls, what) = (self.program.net_ns, most.lookups(), most.class.title());
        (calls >= MANY_CALLS).then_some(Imports { ns, calls, what })
    }
}

/// One image, with its prediction.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// The program's path: as passed to `execve`, if that leads to the program itself.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The file that was executed, its links resolved: for a script, its interpreter.
    #[serde(serialize_with = "lossy")]
    pub file: BString,
    /// The path passed to `execve`: for a script, the script.
    #[serde(rename = "asked", serialize_with = "lossy")]
    pub exec_path: BString,
    /// The process id.
    pub pid: u32,
    /// True if it is a fork that continued without an `execve` of its own.
    pub forked: bool,
    /// The interpreter of the program; null for a static one.
    #[serde(serialize_with = "lossy_option")]
    pub interpreter: Option<BString>,
    /// The machine; null if there is no prediction.
    pub machine: Option<String>,
    /// The C library; null if it is not known.
    pub libc: Option<String>,
    /// True if it started in secure-execution mode.
    pub secure: bool,
    /// True if it is below a store prefix (`--store`); null if there is no prediction.
    pub immutable: Option<bool>,
    /// True if the entry point was reached; false if the loader gave up.
    #[serde(default = "is_reached")]
    pub reached_entry: bool,
    /// The loader's probes as observed, counted.
    pub storm: SearchCost,
    /// Time of its misses in nanoseconds, the tracer's own cost subtracted.
    pub storm_ns: u64,
    /// The share before the entry point.
    pub loader: Share,
    /// The share after it.
    pub program: Share,
    /// The system calls of both shares, the most time first.
    pub syscalls: Vec<SyscallRow>,
    /// The lookups after the entry point by class, those with most misses and repetitions first.
    pub classes: Vec<ClassLookups>,
    /// The causes of the loader's misses, the worst 50 of each.
    pub worst: Offenders,
    /// The loader's search after the entry point.
    pub dlopen: Dlopen,
    /// The index that the start loaded as an audit module. The prediction includes its answers.
    #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
    pub calmed_by: Option<BString>,
    /// Symbol bindings that come from that index, if it applies them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indexed_bindings: Option<IndexedBindings>,
    /// The waits for pages that were not in memory; null if the kernel does not report them (a note says so,
    /// if there were any).
    pub pages: Option<Pages>,
    /// Relocation, timed in further starts, with the files in memory (`--relocations`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relocations: Option<Relocations>,
    /// Prediction and observation side by side; null if there is no prediction.
    pub prediction: Option<Beside>,
    /// The reason why there is no prediction.
    pub no_prediction: Option<String>,
    /// Lookups before the entry point that were not the loader's.
    pub initialisers: u64,
    /// Lookups of the loader beyond the number that is kept.
    pub dropped: u64,
    /// The variables that affect a loader or a class.
    pub environment: BTreeMap<String, String>,
    /// The observed [probes](#probe), with the requester from the model.
    pub probes: Vec<Probe>,
    /// Time from the begin of the first image to that of this one, in nanoseconds.
    #[serde(skip)]
    pub began_ns: u64,
    /// The lookups with their times, if the caller wants them.
    #[serde(skip)]
    pub timeline: Vec<TimedLookup>,
    /// The prediction of `becalm check`.
    #[serde(skip)]
    pub checked: Option<Box<Program>>,
    /// With `--files`: the files that it used, and the links that lead to each.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<StartFile>,
}

/// A record without the field is of a start that reached the entry point.
fn is_reached() -> bool {
    true
}

/// Returns the words of a command line as text.
pub(super) fn words_of_command(command: &Command) -> Vec<String> {
    let words = [&command.program].into_iter().chain(&command.args);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Describes the waits for pages: "waited 0.20 s for 49 pages of 12 files"; `None` if there are none.
#[must_use]
pub fn words_of_pages(waited: &Pages) -> Option<String> {
    let files = counted(waited.files.len() as u64, "file", "files");
    let pages = counted(waited.waits, "page", "pages");
    (waited.waits > 0).then(|| format!("waited {} for {pages} of {files}", seconds(waited.seconds)))
}
