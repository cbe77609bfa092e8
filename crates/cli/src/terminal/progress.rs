//! A progress bar for work that takes long, on a terminal only.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use becalm_lib::progress::{Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts finished work from any thread; the bar appears once the work is long.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    wanted: bool,
}

impl Bar {
    /// Starts a bar for `total` pieces of work.
    pub(crate) fn of(total: usize) -> Self {
        Self::new(Some(total as u64), "{wide_bar} {human_pos}/{human_len} {eta}")
    }

    /// Starts a count without a known total; `what` names the pieces in the plural.
    pub(crate) fn counting(what: &str) -> Self {
        Self::new(None, &format!("{{spinner}} {{human_pos}} {what}"))
    }

    fn new(total: Option<u64>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        // With a wrong template, the plain bar is shown.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, wanted: std::io::stderr().is_terminal() }
    }

    /// Counts more finished pieces.
    pub(crate) fn add(&self, pieces: usize) {
        if self.wanted {
            self.bar.inc(pieces as u64);
            if self.bar.is_hidden() && self.bar.elapsed() >= PATIENCE {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
    }

    /// Removes the bar from the screen while something is written.
    pub(crate) fn pause(&self) {
        self.bar.suspend(|| {});
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows each phase of the library's work as a bar; a signal ends work that writes between two files.
#[derive(Debug, Default)]
pub(crate) struct Bars(Arc<AtomicBool>);

impl Progress for Bars {
    fn phase(&self, total: usize) -> Box<Phase<'_>> {
        let bar = Bar::of(total);
        Box::new(move |pieces| bar.add(pieces))
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
