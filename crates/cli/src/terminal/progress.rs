//! A progress bar for work that takes long, on a terminal only.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use becalm_lib::progress::{Phase, Progress, Search};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts finished work from any thread; the bar appears once the work is long.
#[derive(Debug)]
pub(crate) struct Bar {
    /// The number of pieces, if it is known.
    total: Option<u64>,
    /// The name of the pieces of a count, in the plural.
    what: &'static str,
    done: AtomicU64,
    started: Instant,
    wanted: bool,
    shown: OnceLock<ProgressBar>,
}

impl Bar {
    /// Starts a bar for `total` pieces of work.
    pub(crate) fn of(total: usize) -> Self {
        Self::new(Some(total as u64), "")
    }

    /// Starts a count without a known total; `what` names the pieces in the plural.
    pub(crate) fn counting(what: &'static str) -> Self {
        Self::new(None, what)
    }

    fn new(total: Option<u64>, what: &'static str) -> Self {
        Self {
            total,
            what,
            done: AtomicU64::new(0),
            started: Instant::now(),
            wanted: std::io::stderr().is_terminal(),
            shown: OnceLock::new(),
        }
    }

    /// Adds finished pieces.
    pub(crate) fn add(&self, pieces: usize) {
        if !self.wanted {
            return;
        }
        let done = self.done.fetch_add(pieces as u64, Ordering::Relaxed) + pieces as u64;
        let is_shown = self.shown.get().is_some() || self.started.elapsed() >= PATIENCE;
        if is_shown {
            self.shown.get_or_init(|| self.drawn()).set_position(done);
        }
    }

    fn drawn(&self) -> ProgressBar {
        let template = match self.total {
            Some(_) => "{wide_bar} {human_pos}/{human_len} {eta}",
            None => "{spinner} {human_pos} {msg}",
        };
        let bar = ProgressBar::with_draw_target(self.total, ProgressDrawTarget::stderr());
        // With a wrong template, the plain bar is shown.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.with_message(self.what)
    }

    /// Removes the bar from the screen while something is written.
    pub(crate) fn pause(&self) {
        if let Some(bar) = self.shown.get() {
            bar.suspend(|| {});
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.shown.get() {
            bar.finish_and_clear();
        }
    }
}

impl Phase for Bar {
    fn tick(&self) {
        self.add(1);
    }
}

impl Search for Bar {
    fn add(&self, files: usize) {
        Self::add(self, files);
    }
}

/// Shows each phase of the library's work as a bar; a signal ends work that writes between two files.
#[derive(Debug, Default)]
pub(crate) struct Bars(Arc<AtomicBool>);

impl Progress for Bars {
    fn phase(&self, total: usize) -> Box<dyn Phase + '_> {
        Box::new(Bar::of(total))
    }

    fn begin_writing(&self) {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // This fails only for signals that cannot be handled, such as SIGKILL.
            let _ = signal_hook::flag::register(signal, Arc::clone(&self.0));
        }
    }

    fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
