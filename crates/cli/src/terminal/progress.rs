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
    form: Form,
    done: AtomicU64,
    started: Instant,
    wanted: bool,
    shown: OnceLock<ProgressBar>,
}

/// The form of a progress bar.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// Finished pieces out of a known number.
    Of(u64),
    /// The number of finished pieces, with their name in the plural.
    Count(&'static str),
}

impl Bar {
    /// Starts a bar for `total` pieces of work.
    pub(crate) fn of(total: usize) -> Self {
        Self::new(Form::Of(total as u64))
    }

    /// Starts a count without a known total; `what` names the pieces in the plural.
    pub(crate) fn counting(what: &'static str) -> Self {
        Self::new(Form::Count(what))
    }

    fn new(form: Form) -> Self {
        Self {
            form,
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
            self.shown.get_or_init(|| self.form.bar()).set_position(done);
        }
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

impl Form {
    fn bar(self) -> ProgressBar {
        let (total, template, message) = match self {
            Self::Of(total) => (Some(total), "{wide_bar} {human_pos}/{human_len} {eta}", ""),
            Self::Count(what) => (None, "{spinner} {human_pos} {msg}", what),
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        // With a wrong template, the plain bar is shown.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.with_message(message)
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
