//! Compares the startup times of programs (`becalm bench`). The host measures in paired rounds; the
//! report adds the machine and the quality of the measurement. Each variant is also started a few
//! times under the tracer, for its lookups and its relocation.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use becalm_host::bench::are_droppable;
use becalm_host::bench::stats::{Ratio, Spread};
use becalm_host::bench::{self, BenchError, Measured, Options, Taken, Timed, Until, Variant};
use becalm_host::trace::{Command, Pages, Streams};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::ahead::record::{Record, place};
use crate::first_line::{FirstLine, Indexed, Loader};
use crate::here;
use crate::json;
use crate::progress::{Phase, Progress};
use crate::records;
use crate::relocations::Relocations;
use crate::trace;
use crate::trace::observe::watch;
use crate::words::{self, counted};

/// A finished measurement: the JSON document of `becalm bench`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The end of the measured time: `exit` of the program, its first `idle` moment, or its `entry` point.
    pub until: &'static str,
    /// True if the kernel's caches were dropped before each start: those of the machine, or, if a note
    /// says so, the pages of the files of the start.
    pub cold: bool,
    /// The number of measured rounds.
    pub rounds: usize,
    /// The number of warm-up rounds.
    pub warmup: usize,
    /// The seed of the random orders.
    pub seed: u64,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The variants that were measured. The last one is the control, which is the first one again.
    pub variants: Vec<Figures>,
    /// Remarks to read before trusting the figures.
    pub notes: Vec<String>,
    /// The first line.
    #[serde(skip)]
    pub first_line: FirstLine,
}

/// The name of the variant that starts the first program by an index of its own.
pub const INDEXED: &str = "with an index";

/// The machine of a measurement, as far as it affects the figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// System, release and machine of the kernel.
    pub kernel: String,
    /// The number of processors that may be used.
    pub cpus: usize,
    /// The load average over the minute before the measurement; null if it cannot be read.
    pub load: Option<f64>,
    /// The start of the measurement, in seconds since 1970.
    pub began: u64,
}

/// The figures of one variant. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Its name; the control has the first variant's.
    pub name: String,
    /// True for the control.
    pub control: bool,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The variables that differ from the environment of becalm; null for a removed variable.
    pub environment: BTreeMap<String, Option<String>>,
    /// The median of `wall_ns`.
    pub median_ns: u64,
    /// The lower quartile of `wall_ns`.
    pub low_ns: u64,
    /// The upper quartile of `wall_ns`.
    pub high_ns: u64,
    /// The minimum of `wall_ns`.
    pub least_ns: u64,
    /// The maximum of `wall_ns`.
    pub most_ns: u64,
    /// The number of outliers in `wall_ns` (Tukey's fences).
    pub outliers: usize,
    /// The median of `cpu_ns`; null if it is not measured.
    pub cpu_median_ns: Option<u64>,
    /// The median of the page faults that waited for the disk; null if it is not measured.
    pub major_faults: Option<u64>,
    /// The median of the bytes that the start had read from the disk; null if it is not measured.
    pub read_bytes: Option<u64>,
    /// The ratio to the first variant's time; null for the first variant.
    pub ratio: Option<Ratio>,
    /// Lookups and relocation, traced in further starts; null for the control, and if the program
    /// cannot be traced.
    pub watched: Option<Watched>,
    /// The time of each round, in order.
    pub wall_ns: Vec<u64>,
    /// The processor time of each round, user and kernel; null if it is not measured.
    pub cpu_ns: Option<Vec<u64>>,
}

/// The observations of a variant in further starts, which are not timed: one traced start, cold if those of
/// the measurement are, and then those for its relocation, with the files in memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Watched {
    /// The loader's time up to the entry point, in nanoseconds, the tracer's own cost subtracted.
    pub loader_ns: u64,
    /// The loader's misses.
    pub misses: u64,
    /// The waits for pages of a cold start that were not in memory; null for warm starts, and if the kernel
    /// does not report them.
    pub pages: Option<Pages>,
    /// Relocation; null if the loader does not report it.
    pub relocations: Option<Relocations>,
    /// Lookups after the entry point that failed; null if only the loader's work is measured.
    pub program_misses: Option<u64>,
    /// Lookups after the entry point that succeeded and repeat an earlier one; null if only the
    /// loader's work is measured.
    pub program_repeated: Option<u64>,
}

json::schema!(Report, "becalm/bench/1");

/// Measures the variants against each other, the first one twice.
///
/// # Errors
/// Returns an error if a variant cannot be started, fails or takes too long.
pub fn bench(
    variants: &[Variant],
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, BenchError> {
    let machine = Machine::here();
    let options = &with_cold_files(variants, options);
    let measured = measure(variants, options, progress)?;
    let watch = |variant: &Variant| {
        Watched::of(variant, options).map_err(|why| {
            let why = words::words_of_chain(why.as_ref());
            format!("{}: not watched: {why}", variant.name)
        })
    };
    let watched: Vec<Result<Watched, String>> = variants.iter().map(watch).collect();
    let mut notes = notes(&measured, &machine);
    notes.extend(watched.iter().filter_map(|watched| watched.as_ref().err().cloned()));
    // The control has the first variant's command.
    let watched = watched.into_iter().map(Result::ok).chain([None]);
    let commands = variants.iter().chain(variants.first()).zip(watched);
    let figures = measured.variants.iter().zip(commands);
    let figures = figures.map(|(timed, (of, watched))| Figures::of(timed, of, watched));
    if options.cold && !are_droppable() {
        let files = counted(options.cold_files.len() as u64, "file", "files");
        notes.push(format!(
            "the caches of the machine cannot be dropped here (root, outside of a container): the \
             pages of {files} of the recorded starts were; what other processes map, directories and \
             inodes stayed in memory"
        ));
    }
    let figures: Vec<Figures> = figures.collect();
    Ok(Report {
        first_line: first_line(&figures, options.until),
        until: match options.until {
            Until::Exit => "exit",
            Until::Idle => "idle",
            Until::Entry => "entry",
        },
        cold: options.cold,
        rounds: measured.rounds,
        warmup: options.warmup,
        seed: options.seed,
        variants: figures,
        notes,
        machine,
    })
}

/// Returns the first line: of the first variant, and of the one with an index.
fn first_line(figures: &[Figures], until: Until) -> FirstLine {
    let Some(plain) = figures.first() else { return FirstLine::default() };
    let indexed = figures.iter().find(|variant| variant.name == INDEXED && !variant.control);
    // A part is never larger than its whole, although they are of different starts.
    let loader_ns = |of: &Figures| match until {
        Until::Entry => Some(of.median_ns),
        Until::Exit | Until::Idle => of.watched.as_ref().map(|it| it.loader_ns().min(of.median_ns)),
    };
    let loader = loader_ns(plain).zip(plain.watched.as_ref()).map(|(ns, watched)| Loader {
        ns,
        lookups_ns: watched.relocations.as_ref().and_then(|it| it.part_of(ns)),
        misses_ns: 0,
        misses: watched.misses,
        is_measured: true,
    });
    let takes = indexed.and_then(loader_ns).map(|ns| Indexed::Takes(ns, true));
    let whole = (until != Until::Entry).then(|| (plain.median_ns, indexed.map(|it| it.median_ns)));
    let program = plain.program.clone();
    let until_idle = until == Until::Idle;
    let indexed = takes.unwrap_or_default();
    FirstLine { program, loader, indexed, whole, until_idle, imports: None }
}

/// Returns the options with the files of the recorded starts of the programs, if these are to be
/// dropped.
fn with_cold_files(variants: &[Variant], options: &Options) -> Options {
    let mut options = options.clone();
    if options.cold && !are_droppable() {
        let programs = variants.iter().filter_map(|variant| variant.command.file().ok());
        let recorded = programs.filter_map(|path| {
            let place = place(&std::path::absolute(path).ok()?)?;
            Record::read(place.open().ok()??)
        });
        let files = recorded.flat_map(|record| record.files).map(|file| file.path.into());
        let files: FxHashSet<PathBuf> = files.collect();
        options.cold_files.extend(files);
    }
    options
}

/// Measures like [`bench`], and returns the times alone.
///
/// # Errors
/// Returns the errors of [`bench`].
pub fn measure(
    variants: &[Variant],
    options: &Options,
    progress: &dyn Progress,
) -> Result<Measured, BenchError> {
    let mut phase: Option<Box<Phase<'_>>> = None;
    bench::measure(variants, options, &mut |_, of| {
        phase.get_or_insert_with(|| progress.phase(of))(1);
    })
}

impl Watched {
    /// Returns the loader's time: that of the start whose relocation was timed, of which this is a
    /// part, else that of the traced start.
    #[must_use]
    pub fn loader_ns(&self) -> u64 {
        self.relocations.as_ref().map_or(self.loader_ns, |relocations| relocations.loader_ns)
    }

    /// Starts a variant a few times under the tracer.
    ///
    /// # Errors
    /// Returns an error if the variant cannot be traced.
    fn of(variant: &Variant, options: &Options) -> Result<Self> {
        let streams = Some(Streams::nowhere()?);
        let command = Command { streams, ..variant.command.clone() };
        let until_entry = options.until == Until::Entry;
        let watched = trace::options::Options {
            until_entry,
            until_idle: options.until == Until::Idle,
            relocations: true,
            cold: options.cold,
            ..trace::options::Options::default()
        };
        if options.cold {
            bench::drop_caches(&options.cold_files)?;
        }
        let report = watch(&watched, &command, options.timeout)?;
        if report.opens_alone {
            bail!(report.notes.into_iter().next().unwrap_or_default());
        }
        let seen = report.images.into_iter().next_back().context("it executed nothing")?;
        let repeated = seen.classes.iter().map(|class| class.repeated.count).sum();
        Ok(Self {
            loader_ns: seen.loader.net_ns,
            misses: seen.storm.misses(),
            pages: seen.pages.filter(|_| options.cold),
            relocations: seen.relocations,
            program_misses: (!until_entry).then(|| seen.program.missed.total()),
            program_repeated: (!until_entry).then_some(repeated),
        })
    }
}

impl Machine {
    fn here() -> Self {
        Self {
            kernel: here::kernel(),
            cpus: here::processors(),
            load: here::load(),
            began: records::now(),
        }
    }
}

impl Figures {
    fn of(timed: &Timed, variant: &Variant, watched: Option<Watched>) -> Self {
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        // Times are far below 2^53 ns, and never negative.
        let ns = |value: f64| value.round() as u64;
        let spread = timed.spread;
        let is_measured = timed.runs.iter().any(|run| run.cpu_ns > 0);
        let median = |of: fn(&Taken) -> u64| {
            let values: Vec<f64> = timed.runs.iter().map(|run| of(run) as f64).collect();
            is_measured.then(|| ns(Spread::of(&values).median))
        };
        Self {
            name: timed.name.clone(),
            control: timed.control,
            program: text(&variant.command.program),
            args: variant.command.args.iter().map(text).collect(),
            environment: changed_variables(&variant.command),
            median_ns: ns(spread.median),
            low_ns: ns(spread.low),
            high_ns: ns(spread.high),
            least_ns: ns(spread.least),
            most_ns: ns(spread.most),
            outliers: spread.outliers,
            cpu_median_ns: median(|run| run.cpu_ns),
            major_faults: median(|run| run.major_faults),
            read_bytes: median(|run| run.read_bytes),
            ratio: timed.ratio,
            watched,
            wall_ns: timed.runs.iter().map(|run| run.wall_ns).collect(),
            cpu_ns: is_measured.then(|| timed.runs.iter().map(|run| run.cpu_ns).collect()),
        }
    }
}

/// Returns the variables in which a command's environment differs from that of this process; `None`
/// for a removed variable.
fn changed_variables(command: &Command) -> BTreeMap<String, Option<String>> {
    let Some(own) = &command.env else { return BTreeMap::new() };
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    let set = own.iter().filter(|(name, value)| env::var_os(name).as_ref() != Some(value));
    let set = set.map(|(name, value)| (text(name), Some(text(value))));
    let taken = env::vars_os().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
    set.chain(taken.map(|(name, _)| (text(&name), None))).collect()
}

fn notes(measured: &Measured, machine: &Machine) -> Vec<String> {
    let mut notes = Vec::new();
    let control = measured.variants.iter().find(|timed| timed.control);
    if let Some(ratio) = control.and_then(|timed| timed.ratio) {
        if ratio.interval().is_none() {
            notes.push("fewer than 6 rounds: no interval".to_owned());
        } else if !ratio.holds_one() {
            notes.push(
                "the control differs from the first variant: the machine was disturbed; measure \
                 again, with more rounds"
                    .to_owned(),
            );
        }
    }
    let outliers: usize = measured.variants.iter().map(|timed| timed.spread.outliers).sum();
    let starts: usize = measured.variants.iter().map(|timed| timed.runs.len()).sum();
    if outliers * 10 > starts {
        notes.push(format!("{outliers} of {starts} starts are outliers: a busy machine"));
    }
    let busy = machine.load.and_then(|load| here::busy(load, machine.cpus));
    notes.extend(busy.map(|busy| format!("{busy} when it began")));
    notes
}
