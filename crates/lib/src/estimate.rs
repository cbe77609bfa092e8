//! Estimates the loader's time before `main` from the counts of a predicted start. Nothing is
//! started: a few milliseconds of the same kinds of work show how fast this machine is.
//!
//! The constants are a least-squares fit over the programs of one machine, from the `execve` to the
//! entry point, with the files in memory. [`Machine`] scales them. Constructors of libraries, which
//! run before `main` too, are not in the counts.

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::cost::SearchCost;
use becalm_core::elf::machine_name;
use becalm_core::facts::{Environment, GLIBC_RANGE, Libc};
use becalm_core::symbols::{RelocationWork, bind};
use becalm_host::Session;
use becalm_host::index_store::BindThreshold;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::assume::Assumptions;
use crate::follow::follow;
use crate::path::path_of;
use crate::symbols::bind_options_of_environment;
use crate::targets::Target;

/// Nanoseconds of the kernel's calls: of an `execve`, of loading an object, of loading the audit module, of its calls
/// for an object.
const EXEC: f64 = 515e3;
const OBJECT: f64 = 20e3;
const MODULE: f64 = 51e3;
const AUDITED: f64 = 6e3;
/// Nanoseconds of work in memory: of copying a relocated page, of a lookup, of a hash table in it, of a relocation with
/// and without a symbol; of both by the module.
const PAGE: f64 = 2.9e3;
const LOOKUP: f64 = 68.0;
const TABLE: f64 = 6.2;
const SYMBOLIC: f64 = 55.0;
const RELATIVE: f64 = 10.3;
const BOUND: f64 = 22.0;
const BOUND_RELATIVE: f64 = 5.4;
/// Nanoseconds of the two kinds of work on that machine, as [`Machine::measure`] does them in a release build.
const KERNEL_UNIT: f64 = 11.5e3;
const LOADER_UNIT: f64 = 10.2e3;
/// The part of the loader's time that a gain has to be to be worth a command, and a part of it to be worth a
/// word.
pub const PART: f64 = 0.1;
/// Directories in which a miss is timed.
const MISSED_DIRS: usize = 4;

/// The estimated time of a start until its program's entry point, in nanoseconds, with the files in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The whole time without an index.
    pub loader_ns: u64,
    /// Of that, the time of the misses.
    pub misses_ns: u64,
    /// Of that, the time of symbol lookups and of the relocations that need them.
    pub lookups_ns: u64,
    /// Of that, the time of the other relocations, and of the pages that are changed.
    pub relative_ns: u64,
    /// The whole time with an index of the program; null if an index has no effect on it.
    pub indexed_ns: Option<u64>,
    /// The counts behind the times of relocation.
    pub relocation: RelocationWork,
}

impl Estimate {
    /// Estimates the start of a program without an index.
    #[must_use]
    pub fn of_path(assumed: &Assumptions, program: &Path) -> Option<Self> {
        Self::without_index(assumed, &assumed.fs.session(), &Target::named(assumed, program))
    }

    /// Estimates the start of a file without an index: it is followed again if an index answers in it.
    pub(crate) fn without_index(
        assumed: &Assumptions,
        session: &Session<'_>,
        target: &Target,
    ) -> Option<Self> {
        let environment = Environment { audit: None, ..assumed.environment.clone() };
        let (closure, secure) = follow(assumed, session, target, &environment).ok()?.elf()?;
        Self::of(assumed, &closure, secure)
    }

    /// Estimates the start of a closure that uses no index; `None` if it has no loader of glibc, or
    /// is not a start on this machine.
    #[must_use]
    pub fn of(assumed: &Assumptions, closure: &Closure, secure: bool) -> Option<Self> {
        let libc = closure.facts.as_ref()?.libc;
        let is_program = closure.subject.kind == SubjectKind::Program;
        let machine = closure.subject.view.ident.machine;
        let is_own = assumed.choice.libc.is_none() && assumed.loader.is_none();
        let is_here =
            is_own && assumed.fs.is_real_root() && machine_name(machine) == std::env::consts::ARCH;
        if !is_program || !is_here || libc == Libc::Musl {
            return None;
        }
        let machine = Machine::here();
        let cost = SearchCost::of(&closure.load);
        let misses = cost.misses() as f64 * Machine::miss(closure);
        let work = work_of(assumed, closure)?;
        let is_bound = !BindThreshold::default().is_missed(
            libc,
            (work.symbolic + work.lazy) as usize,
            work.relative as usize,
        );
        let estimate = machine.estimate(cost.objects as f64, misses, work, is_bound);
        let has_effect = !secure && libc >= Libc::Glibc(GLIBC_RANGE.0);
        Some(Self { indexed_ns: estimate.indexed_ns.filter(|_| has_effect), ..estimate })
    }

    /// Returns a time with the misses that are left of those before.
    #[must_use]
    pub fn with_misses(&self, ns: u64, left: u64, before: u64) -> u64 {
        ns + (self.misses_ns as f64 * left as f64 / before.max(1) as f64) as u64
    }
}

/// Counts the relocations of a start; `None` without a loader, and if they cannot be read.
#[must_use]
pub fn work_of(assumed: &Assumptions, closure: &Closure) -> Option<RelocationWork> {
    let libc = closure.facts.as_ref()?.libc;
    let options = bind_options_of_environment();
    let bindings = bind(&closure.load, libc, &assumed.fs.symbols(), options).ok()?;
    Some(RelocationWork::of(&bindings))
}

/// The speed of this machine: the times of two kinds of work, relative to those of the machine of
/// the constants.
#[derive(Clone, Copy, Debug)]
struct Machine {
    kernel: f64,
    loader: f64,
}

impl Machine {
    fn here() -> Self {
        static HERE: OnceLock<Machine> = OnceLock::new();
        *HERE.get_or_init(Self::measure)
    }

    fn measure() -> Self {
        let slower = |ns: f64, unit: f64| (ns / unit).clamp(0.1, 20.0);
        Self {
            kernel: slower(least(calls), KERNEL_UNIT),
            loader: slower(least(lookups), LOADER_UNIT),
        }
    }

    /// Times a failing open as the start makes them: the second one of a name.
    fn miss(closure: &Closure) -> f64 {
        let failed = closure.load.probes.iter().filter(|probe| probe.outcome.is_failed_call());
        let dirs = failed.map(|probe| path_of(probe.path.as_ref()).parent().map(Path::to_owned));
        let mut seen = FxHashSet::default();
        let dirs = dirs.map(Option::unwrap_or_default).filter(|dir| seen.insert(dir.clone()));
        let time = |dir: PathBuf| {
            let name = dir.join(format!("libbecalm{}.so", std::process::id()));
            least(|| drop(black_box(File::open(&name))))
        };
        let times: Vec<f64> = dirs.take(MISSED_DIRS).map(time).collect();
        times.iter().sum::<f64>() / times.len().max(1) as f64
    }

    fn estimate(self, objects: f64, misses: f64, work: RelocationWork, is_bound: bool) -> Estimate {
        let [lookups, searched, symbolic, lazy, relative, pages] =
            [work.lookups, work.searched, work.symbolic, work.lazy, work.relative, work.pages]
                .map(|count| count as f64);
        let start = self.kernel * (EXEC + OBJECT * objects);
        let pages = self.loader * PAGE * pages;
        let by_loader = lookups * LOOKUP + searched * TABLE + symbolic * SYMBOLIC;
        let by_loader = self.loader * by_loader;
        let relative_ns = pages + self.loader * RELATIVE * (relative + lazy);
        let module = self.kernel * (MODULE + AUDITED * objects);
        let bound = match is_bound {
            true => {
                let slots = (symbolic + lazy) * BOUND + relative * BOUND_RELATIVE;
                pages + self.loader * slots
            }
            false => by_loader + relative_ns,
        };
        let ns = |ns: f64| ns as u64;
        Estimate {
            loader_ns: ns(start + misses + by_loader + relative_ns),
            misses_ns: ns(misses),
            lookups_ns: ns(by_loader),
            relative_ns: ns(relative_ns),
            indexed_ns: Some(ns(start + module + bound)),
            relocation: work,
        }
    }
}

/// True if a time is worth a command, which saves it from the one before.
#[must_use]
pub fn is_gain(ns: u64, before: u64) -> bool {
    ns as f64 <= (1.0 - PART) * before as f64
}

/// Returns the least time of some runs, in nanoseconds: those that nothing interrupted.
fn least(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let began = Instant::now();
        work();
        began.elapsed().as_nanos() as f64
    };
    (0..25).map(time).fold(f64::INFINITY, f64::min)
}

/// Opens and closes a directory, as an example of system calls.
fn calls() {
    (0..20).for_each(|_| drop(black_box(File::open("/"))));
}

/// Looks up names in a hash table, as the loader does: a hash of the name, then a word of a filter
/// at a random place.
fn lookups() {
    static FILTERS: OnceLock<Vec<u64>> = OnceLock::new();
    let filters = FILTERS.get_or_init(|| vec![1; 1 << 16]);
    let mut hash = 5381_u32;
    for _ in 0..400 {
        // The compiler must not know the name: it would make one multiplication of its hash.
        for byte in black_box(*b"_ZNSt6vectorIPcSaIS0_EE17_M_realloc") {
            hash = hash.wrapping_mul(33).wrapping_add(byte.into());
        }
        let word = filters.get(hash as usize % (1 << 16)).copied().unwrap_or(0);
        hash = hash.wrapping_add(black_box(word) as u32);
    }
    black_box(hash);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Machine = Machine { kernel: 1.0, loader: 1.0 };
    const WORK: RelocationWork = RelocationWork {
        lookups: 20_000,
        searched: 400_000,
        symbolic: 60_000,
        lazy: 1_000,
        relative: 50_000,
        pages: 500,
    };

    #[test]
    fn the_parts_are_in_the_whole_and_an_index_takes_away_lookups_and_misses() {
        let estimate = HERE.estimate(50.0, 1e6, WORK, true);
        let parts = estimate.misses_ns + estimate.lookups_ns + estimate.relative_ns;
        assert!(parts < estimate.loader_ns, "{estimate:?}");
        assert!(estimate.indexed_ns.unwrap() < estimate.loader_ns - estimate.misses_ns);
        let none_left = estimate.loader_ns - estimate.misses_ns;
        assert_eq!(estimate.with_misses(none_left, 10, 10), estimate.loader_ns);
        assert_eq!(estimate.with_misses(none_left, 0, 0), none_left);
    }

    #[test]
    fn an_index_without_bindings_costs_a_small_program_time() {
        let small = RelocationWork { lookups: 100, searched: 300, ..RelocationWork::default() };
        let estimate = HERE.estimate(5.0, 0.0, small, false);
        assert!(estimate.indexed_ns.unwrap() > estimate.loader_ns, "{estimate:?}");
    }

    #[test]
    fn a_slower_machine_takes_longer() {
        let slow = Machine { kernel: 2.0, loader: 3.0 }.estimate(50.0, 0.0, WORK, true);
        assert!(slow.loader_ns > 2 * HERE.estimate(50.0, 0.0, WORK, true).loader_ns);
    }

    #[test]
    fn the_start_of_a_program_is_estimated_without_a_start() {
        let assumed = Assumptions::new(&crate::assume::Options::default()).unwrap();
        let own = std::env::current_exe().unwrap();
        let estimate = Estimate::of_path(&assumed, &own);
        // The tests of a static becalm have no loader.
        if let Some(estimate) = estimate {
            assert!(estimate.relocation.relative > 0 && estimate.loader_ns > 0, "{estimate:?}");
        }
        assert_eq!(Estimate::of_path(&assumed, Path::new("/nonexistent/program")), None);
    }
}
