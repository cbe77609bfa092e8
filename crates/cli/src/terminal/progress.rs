//! A progress bar for work that takes long, on a terminal only.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use becalm_lib::progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts finished work from any thread; the bar appears once the work is long.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    done: AtomicU64,
    started: Instant,
    wanted: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Of `total` pieces of work none is done.
    #[must_use]
    pub(crate) fn new(total: usize) -> Self {
        Self {
            total: total as u64,
            done: AtomicU64::new(0),
            started: Instant::now(),
            wanted: std::io::stderr().is_terminal(),
            bar: OnceLock::new(),
        }
    }

    /// One more piece is done.
    pub(crate) fn tick(&self) {
        if !self.wanted {
            return;
        }
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.started.elapsed() >= PATIENCE {
            self.bar.get_or_init(|| bar(self.total)).set_position(done);
        }
    }

    /// Takes the bar off the screen while something is written.
    pub(crate) fn pause(&self) {
        if let Some(bar) = self.bar.get() {
            bar.suspend(|| {});
        }
    }

    /// Takes the bar away for good.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Shows each phase of the library's work as a bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bars;

impl progress::Progress for Bars {
    fn phase(&self, total: usize) -> Box<dyn progress::Phase + '_> {
        Box::new(Progress::new(total))
    }
}

/// Shows the phases of work that writes, and has signals end it between two files.
#[derive(Debug, Default)]
pub(crate) struct Writing(Arc<AtomicBool>);

impl progress::Progress for Writing {
    fn phase(&self, total: usize) -> Box<dyn progress::Phase + '_> {
        Box::new(Progress::new(total))
    }

    fn begin_writing(&self) {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Fails for signals that nobody may handle; these are others.
            let _ = signal_hook::flag::register(signal, Arc::clone(&self.0));
        }
    }

    fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl progress::Phase for Progress {
    fn tick(&self) {
        Self::tick(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// How often a bar moves by itself.
const TICK: Duration = Duration::from_millis(200);

/// Work in several parts, each with a name.
#[derive(Debug)]
pub(crate) struct Stages {
    bar: Option<ProgressBar>,
}

impl Stages {
    /// None of `total` pieces is done.
    #[must_use]
    pub(crate) fn new(total: usize) -> Self {
        let wanted = std::io::stderr().is_terminal();
        let bar = wanted.then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(total as u64), target);
            let style = ProgressStyle::with_template("{bar:30} {elapsed} {msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar }
    }

    /// Shows the current step.
    pub(crate) fn now(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// One more piece is done.
    pub(crate) fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Leaves the screen to another bar, until [`Self::resume`].
    pub(crate) fn pause(&self) {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Takes the screen again.
    pub(crate) fn resume(&self) {
        if let Some(bar) = &self.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
    }

    /// Takes the bar away for good.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Counts work whose total nobody knows beforehand; the count appears once the work is long.
#[derive(Debug)]
pub(crate) struct Count {
    what: &'static str,
    done: AtomicU64,
    started: Instant,
    wanted: bool,
    bar: OnceLock<ProgressBar>,
}

impl Count {
    /// Nothing is counted yet; `what` names the pieces in the plural.
    #[must_use]
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            done: AtomicU64::new(0),
            started: Instant::now(),
            wanted: std::io::stderr().is_terminal(),
            bar: OnceLock::new(),
        }
    }

    /// So many more pieces.
    pub(crate) fn add(&self, pieces: usize) {
        if !self.wanted {
            return;
        }
        let done = self.done.fetch_add(pieces as u64, Ordering::Relaxed) + pieces as u64;
        if self.started.elapsed() >= PATIENCE {
            self.bar.get_or_init(|| counter(self.what)).set_position(done);
        }
    }

    /// Takes the count off the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl progress::Search for Count {
    fn add(&self, files: usize) {
        Self::add(self, files);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.finish();
    }
}

fn counter(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} {msg}") {
        bar.set_style(style);
    }
    bar.with_message(what)
}

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    // A template that is wrong shows the plain bar.
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    bar
}
