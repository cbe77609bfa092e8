//! The data of one program's start on the page.

use becalm_core::cost::SearchCost;
use becalm_core::observe::tally::ClassLookups;
use becalm_core::probe::{Call, Outcome, SearchSource};
use becalm_core::record::phases::Phases;
use becalm_host::trace::Pages;
use bstr::BString;

use crate::advice::Advice;
use crate::first_line::FirstLine;
use crate::relocations::Relocations;

/// The data of one program. Text is printable, but not escaped for HTML.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The program's path.
    pub path: String,
    /// The first line as predicted; `None` for a record.
    pub first_line: Option<FirstLine>,
    /// Machine, C library and interpreter, if known.
    pub about: Vec<String>,
    /// Cost of the search.
    pub storm: SearchCost,
    /// The C library's release, if known.
    pub libc: Option<String>,
    /// The first glibc without legacy hwcaps subdirectories: its name, and the misses of the same
    /// start with it.
    pub newer_glibc: Option<(String, u64)>,
    /// Effect of each strategy; `None` for a record, because its files may not be here.
    pub advice: Option<Advice>,
    /// True for an observed start (a record), false for a predicted one.
    pub is_record: bool,
    /// Faults: unresolved strings, or a start at which the loader stops.
    pub faults: Vec<String>,
    /// The probes, in the loader's order.
    pub tries: Vec<Try>,
    /// The objects, the program first.
    pub nodes: Vec<Node>,
    /// The outcome of a run, or the reason why there is none.
    pub observed: Result<Observed, String>,
}

impl Snapshot {
    /// Returns the first line, with measured times if there are any.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let measured =
            self.observed.as_ref().ok().and_then(|observed| observed.first_line.as_ref());
        measured.or(self.first_line.as_ref()).map(ToString::to_string)
    }
}

/// One probe, and its place in the picture.
#[derive(Clone, Debug)]
pub struct Try {
    /// Path of the requester.
    pub needed_by: BString,
    /// The needed string.
    pub needed: BString,
    /// The search directory; `None` if no directory was searched.
    pub dir: Option<BString>,
    /// The source of the search directory.
    pub source: SearchSource,
    /// The system call.
    pub call: Call,
    /// Result of the call.
    pub outcome: Outcome,
    /// True if the probe was in a hwcaps subdirectory of the search directory.
    pub of_hwcaps: bool,
}

impl Try {
    /// Returns the misses and hits of this probe.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let hit = self.call == Call::Open && self.outcome == Outcome::Hit;
        (u64::from(self.outcome.is_failed_call()), u64::from(hit))
    }
}

/// One object of the closure.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its path.
    pub path: BString,
    /// Its needed strings.
    pub children: Vec<Child>,
}

/// One needed string of an object.
#[derive(Clone, Debug)]
pub struct Child {
    /// The string.
    pub needed: BString,
    /// The answer.
    pub answer: Answered,
    /// The misses before the answer.
    pub misses: u64,
}

/// Answer to a needed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// This object, loaded for it.
    Loaded(usize, SearchSource),
    /// This object, loaded before.
    Before(usize),
    /// No object: the string is unresolved.
    Missing,
    /// No object, and none is required.
    None,
}

/// Results of one traced run. Times are in nanoseconds, without the tracer's own cost.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The first line with the measured times; `None` if there are none.
    pub first_line: Option<FirstLine>,
    /// The command line.
    pub command: String,
    /// Date, machine and becalm's version, if they are known.
    pub made: Option<String>,
    /// Time from the `execve` to the entry point: of the start of the phases, else of the watched run.
    pub loader_ns: u64,
    /// The same time and `program_ns` of the watched run.
    pub watched_ns: u64,
    /// Part of `loader_ns`: the failed opens and stats of the search.
    pub storm_ns: u64,
    /// The relocation of all objects, timed in separate starts; `None` if the loader does not report it.
    pub relocations: Option<Relocations>,
    /// The phases of a further start, with the files in memory; `None` if the loader does not write about
    /// them.
    pub phases: Option<Phases>,
    /// Time from the entry point to the end: of a whole start that was not traced, what is before the entry point
    /// subtracted; else of the watched run.
    pub program_ns: u64,
    /// True if the end is the first idle moment of a program that waits, and not its exit.
    pub until_idle: bool,
    /// Waits for pages that were not in memory, before the entry point and after it; `None` if they were not measured.
    pub pages: Option<Pages>,
    /// True if the start used an index.
    pub has_index: bool,
    /// Cost of the loader's search, as observed.
    pub storm: SearchCost,
    /// True if each probe was predicted; `None` without a prediction.
    pub as_predicted: Option<bool>,
    /// Lookups after the entry point by class, without those of `dlopen`, most first.
    pub classes: Vec<ClassLookups>,
    /// The packages that an interpreter imported, with their times, most first; empty for a record.
    pub modules: Vec<(String, u64)>,
    /// Part of `program_ns`: the failed opens and stats of `dlopen`.
    pub dlopen_ns: u64,
    /// The probes of `dlopen`, in the loader's order.
    pub dlopens: Vec<Try>,
    /// Notes on the run for the reader.
    pub notes: Vec<String>,
}

impl Observed {
    /// Returns the time of the whole start, with the `execve` if that is known.
    #[must_use]
    pub fn whole_ns(&self) -> u64 {
        self.before_main_ns().saturating_add(self.program_ns)
    }

    fn before_main_ns(&self) -> u64 {
        self.phases.as_ref().map_or(0, |phases| phases.exec_ns).saturating_add(self.loader_ns)
    }

    /// Takes the time of the whole start from others, which were not traced; it is at least that of its parts before
    /// `main`. What the traced run says about the program keeps its share.
    pub(super) fn set_whole(&mut self, whole_ns: u64) {
        let whole_ns = whole_ns.max(self.before_main_ns());
        let program_ns = whole_ns.saturating_sub(self.before_main_ns());
        let share = program_ns as f64 / self.program_ns.max(1) as f64;
        let scaled = |ns: u64| (ns as f64 * share) as u64;
        self.dlopen_ns = scaled(self.dlopen_ns);
        self.modules.iter_mut().for_each(|module| module.1 = scaled(module.1));
        self.program_ns = program_ns;
        if let Some(line) = &mut self.first_line {
            line.whole = line.whole.map(|_| (whole_ns, None));
            line.imports.iter_mut().for_each(|imports| imports.ns = program_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_program_keep_their_share_of_a_whole_start() {
        let mut observed = Observed {
            loader_ns: 40,
            program_ns: 200,
            dlopen_ns: 50,
            modules: vec![("numpy".to_owned(), 100)],
            first_line: Some(FirstLine { whole: Some((240, None)), ..FirstLine::default() }),
            ..Observed::default()
        };
        observed.set_whole(140);
        assert_eq!((observed.program_ns, observed.dlopen_ns, observed.modules[0].1), (100, 25, 50));
        assert_eq!(observed.whole_ns(), 140);
        observed.set_whole(30);
        assert_eq!((observed.program_ns, observed.whole_ns()), (0, 40));
        let whole = observed.first_line.and_then(|line| line.whole);
        assert_eq!(whole, Some((40, None)), "a part is never larger than its whole");
    }
}
