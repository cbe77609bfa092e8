//! The model's prediction for each image: the result of `becalm check` for the same program in the
//! same environment, computed in a separate thread after the program has reached its entry point: before it,
//! reading the same libraries would bring the pages into memory for which the loader would wait.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use becalm_core::closure::Closure;
use becalm_host::OsFs;
use becalm_host::trace::{self, Image};
use bstr::BString;

use crate::assume::{self, Assumptions, Secure};
use crate::check::{Program, start};
use crate::path::path_bytes;
use crate::targets::Target;
use crate::trace::options::Options;

/// The number of images that are predicted while the program runs. Their predictions are kept until
/// its end; later images are predicted one at a time.
const AHEAD: usize = 64;

/// The path of an image's program, as it is displayed, and the prediction or the reason why there is
/// none.
pub type Answer = (BString, Result<(Program, Closure), String>);

/// An image and its index.
type Started = (usize, Image);

/// Predictions by the index of their image.
pub type Answers = HashMap<usize, Answer>;

/// A thread that predicts the first images as soon as they reach their entry points. It has to be started before the
/// run: from then on the tracing thread shares one processor with the program, and new threads
/// would share it too.
#[derive(Debug)]
pub struct Predictor {
    /// `None` if no thread could be started.
    thread: Option<(Sender<Started>, JoinHandle<Answers>)>,
    /// The thread's id, once it runs; 0 again once it has been moved.
    id: Arc<AtomicI32>,
}

impl Predictor {
    /// Starts the thread.
    #[must_use]
    pub fn start(options: &Options) -> Self {
        let (images, received) = channel();
        let options = options.clone();
        let id = Arc::new(AtomicI32::new(0));
        let own = Arc::clone(&id);
        let answer = move || {
            own.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            let answer = |(index, image): Started| (index, predict(&image, &options));
            received.into_iter().map(answer).collect()
        };
        let thread = thread::Builder::new().name("predictor".to_owned()).spawn(answer);
        Predictor { thread: thread.ok().map(|thread| (images, thread)), id }
    }

    /// Moves the thread off the processor that the tracer shares with the program, before it is
    /// woken there.
    fn make_room(&self) {
        let id = self.id.swap(0, Ordering::Relaxed);
        rustix::process::Pid::from_raw(id).into_iter().for_each(trace::keep_off_this_processor);
    }

    /// Returns the predictions. Waits for the outstanding ones.
    #[must_use]
    pub fn answers(self) -> Answers {
        let Some((images, thread)) = self.thread else { return Answers::new() };
        // The thread ends when the channel is closed.
        drop(images);
        thread.join().unwrap_or_default()
    }

    /// Begins to predict the start of an image that has reached its entry point.
    pub fn entered(&self, index: usize, image: &Image) {
        if let Some((images, _)) = self.thread.as_ref().filter(|_| index < AHEAD) {
            self.make_room();
            // If the thread has ended, there are no answers, and the model runs later.
            let _ = images.send((index, image.clone()));
        }
    }
}

/// Returns the path that was passed to `execve`, if it leads to the program; the path of a script
/// leads to the script.
pub fn shown_path(image: &Image) -> BString {
    let real = |path: &BString| Path::new(OsStr::from_bytes(path)).canonicalize().ok();
    let leads_there = real(&image.exec_path).is_some_and(|real| path_bytes(&real) == image.path);
    if leads_there { image.exec_path.clone() } else { image.path.clone() }
}

/// Returns the result of `becalm check` for an image.
pub fn predict(image: &Image, options: &Options) -> Answer {
    let path = shown_path(image);
    let assumed = assumptions(image, options);
    let target = Target::named(&assumed, Path::new(OsStr::from_bytes(&path)));
    let session = assumed.fs.session();
    let started = start(&assumed, &session, &target, "nothing that a loader starts");
    let said = started.map_err(|problem| problem.reason).map(|(mut program, closure)| {
        program.add_estimate(&assumed, &session, &target, &closure);
        (*program, closure)
    });
    (path, said)
}

/// Returns the assumptions for an image, with its environment.
fn assumptions(image: &Image, options: &Options) -> Assumptions {
    let variable = |name: &str| {
        let found = image.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    let secure = if image.secure { Secure::Yes } else { Secure::No };
    let store = options.store.clone();
    let assume = assume::Options { secure, store, ..assume::Options::default() };
    let mut assumed = Assumptions::of(&assume, OsFs::new(), variable);
    assumed.environment.secure = image.secure;
    assumed.reads(options.reads.as_deref());
    assumed
}
