//! Joins observation and prediction: the probes of each image are attributed by the model's
//! prediction of the same start.

use becalm_core::closure::Closure;
use becalm_core::observe::offenders::{Miss, Offenders};
use becalm_core::observe::{self, Dlopens, attribute};
use becalm_core::probe::{Call, Outcome, Probe};
use becalm_host::OsFs;
use becalm_host::trace::Image;
use bstr::{BStr, BString, ByteSlice};

use crate::beside::{Beside, Scope};
use crate::check::Program;
use crate::files::{FileList, FileUse, StartFile};
use crate::trace::predict::{Answer, Answers, Assumed, predict, shown_path};
use crate::trace::report::Seen;

/// The images joined with their predictions. The program, which is the last image of the
/// first process, comes last.
#[must_use]
pub fn images(
    images: Vec<Image>,
    mut answers: Answers,
    assumed: &Assumed,
    with_files: bool,
) -> Vec<Seen> {
    let first = images.first().map(|image| image.pid);
    let joined = |(index, image)| {
        let files = if with_files { files(&image) } else { Vec::new() };
        Seen { files, ..join(image, answers.remove(&index), assumed) }
    };
    let mut seen: Vec<Seen> = images.into_iter().enumerate().map(joined).collect();
    let program = seen.iter().rposition(|seen| Some(seen.pid) == first);
    if let Some(at) = program {
        let program = seen.remove(at);
        seen.push(program);
    }
    seen
}

/// Returns the files that an image used: its program, the files that its loader and the program opened, and
/// the links that lead to each.
fn files(image: &Image) -> Vec<StartFile> {
    let os = OsFs::new();
    let session = os.session();
    let mut list = FileList::new(&session);
    if !image.forked {
        let is_script = image.exec_path != image.path;
        let kind = if is_script { FileUse::Script } else { FileUse::Program };
        list.add(image.exec_path.as_ref(), kind);
        list.add(image.path.as_ref(), FileUse::Program);
    }
    if let Some(interpreter) = &image.interpreter {
        list.add(interpreter.as_ref(), FileUse::Interpreter);
    }
    for lookup in image.lookups.iter().chain(&image.dlopens) {
        let opened = lookup.attempt().filter(|it| it.outcome == Outcome::Hit);
        if let Some(opened) = opened.filter(|it| lookup.by_loader && it.call == Call::Open) {
            list.add(opened.path.as_ref(), FileUse::Library);
        }
    }
    for path in &image.opened {
        list.add(path.as_ref(), FileUse::Opened);
    }
    list.finish()
}

/// `answer` is missing for a fork, for an image after very many others, and if no thread could be
/// started.
fn join(image: Image, answer: Option<Answer>, assumed: &Assumed) -> Seen {
    if image.forked {
        let path = shown_path(&image);
        return unpredicted(image, path, "a fork: no loader was at work".to_owned());
    }
    let (path, said) = answer.unwrap_or_else(|| predict(&image, assumed));
    match said {
        Ok((program, closure)) => {
            let scope = Scope { reached_entry: image.reached_entry, opens_alone: false };
            predicted(image, path, program, &closure, scope)
        }
        Err(why) => unpredicted(image, path, why),
    }
}

/// Returns an image without a prediction, and the reason.
#[must_use]
pub fn unpredicted(image: Image, path: BString, why: String) -> Seen {
    let observed = observe::attribute::unpredicted(&image.lookups);
    let worst = raw_offenders(&observed.probes);
    let dlopens = dlopens(&image, None);
    Seen { worst, no_prediction: Some(why), ..Seen::of(image, path, observed, dlopens) }
}

/// Returns an image with its prediction; `scope` is the extent of the observation.
pub(super) fn predicted(
    image: Image,
    path: BString,
    program: Program,
    closure: &Closure,
    scope: Scope,
) -> Seen {
    let observed = attribute(&image.lookups, closure);
    // A list with dropped lookups cannot be compared with the prediction.
    let complete = image.dropped == 0;
    let dlopens = dlopens(&image, Some(closure));
    Seen {
        worst: observed.offenders(closure),
        prediction: complete.then(|| Beside::of(&observed, closure, scope)),
        machine: Some(program.machine.to_owned()),
        libc: program.libc.map(|libc| libc.to_string()),
        immutable: Some(program.immutable),
        calmed_by: program.calmed_by.clone(),
        indexed_bindings: program.bindings,
        checked: Some(Box::new(program)),
        ..Seen::of(image, path, observed, dlopens)
    }
}

/// Returns the searches of the loader after the entry point.
fn dlopens(image: &Image, closure: Option<&Closure>) -> Dlopens {
    const CACHE: &str = "/etc/ld.so.cache";
    let facts = closure.and_then(|closure| closure.facts.as_ref());
    let cache = facts.and_then(|facts| facts.cache_path.as_ref());
    let cache = cache.map_or(CACHE.into(), |path| path.as_bstr());
    observe::dlopens(&image.dlopens, cache, &OsFs::new().session())
}

/// Counts the misses of probes without a known requester, by the directories and names of their paths.
fn raw_offenders(probes: &[Probe]) -> Offenders {
    let failed = probes.iter().filter(|probe| probe.outcome.is_failed_call());
    Offenders::charge(failed.map(|probe| {
        let dir = probe.path.rfind_byte(b'/').map(|end| BStr::new(&probe.path[..end]));
        Miss {
            directory: dir,
            needed: probe.needed.as_ref(),
            object: probe.needed_by.as_ref(),
            call: probe.call,
        }
    }))
}
