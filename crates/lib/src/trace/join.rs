//! Joins observation and prediction: the probes of each image are attributed by the model's
//! prediction of the same start.

use becalm_core::closure::Closure;
use becalm_core::observe::{Class, Dlopen, Lookup, SyscallRow, attribute, dlopens};
use becalm_core::probe::{Attempt, Call, Outcome};
use becalm_host::OsFs;
use becalm_host::trace::{Image, Share};
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::beside::{Beside, Scope};
use crate::files::{FileList, FileUse, StartFile};
use crate::trace::options::Options;
use crate::trace::predict::{Answer, Answers, predict, shown_path};
use crate::trace::report::Seen;

/// The images joined with their predictions. The program, which is the last image of the
/// first process, comes last.
#[must_use]
pub fn images(images: Vec<Image>, mut answers: Answers, options: &Options) -> Vec<Seen> {
    let first = images.first().map(|image| image.pid);
    let joined = |(index, image)| {
        let files = if options.files { files(&image) } else { Vec::new() };
        Seen { files, ..join(image, answers.remove(&index), options) }
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
    list.files
}

/// `answer` is missing for a fork, for an image after very many others, and if no thread could be
/// started.
fn join(image: Image, answer: Option<Answer>, options: &Options) -> Seen {
    let answer = match image.forked {
        true => (shown_path(&image), Err("a fork: no loader was at work".to_owned())),
        false => answer.unwrap_or_else(|| predict(&image, options)),
    };
    let by_loader = image.lookups.iter().filter(|lookup| lookup.by_loader);
    let attempts = by_loader.filter_map(Lookup::attempt).collect();
    let scope = Scope { reached_entry: image.reached_entry, opens_alone: false };
    seen(image, attempts, answer, scope)
}

/// Returns an image with its loader's attempts, and its prediction or the reason why there is none; `scope` is the
/// extent of the observation.
pub(super) fn seen(
    image: Image,
    attempts: Vec<Attempt>,
    (path, said): Answer,
    scope: Scope,
) -> Seen {
    let (predicted, no_prediction) = match said {
        Ok(predicted) => (Some(predicted), None),
        Err(why) => (None, Some(why)),
    };
    let (program, closure) = predicted.unzip();
    let observed = attribute(attempts, closure.as_ref());
    // A list with dropped lookups cannot be compared with the prediction.
    let compared = closure.as_ref().filter(|_| image.dropped == 0);
    let text = |text: &BString| text.to_str_lossy().into_owned();
    let variables = image.environment.iter();
    Seen {
        path,
        storm_ns: storm_ns(&image),
        syscalls: whole([&image.loader, &image.program]),
        dlopen: dlopen(&image, closure.as_ref()),
        environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
        prediction: compared.map(|closure| Beside::of(&observed, closure, scope)),
        no_prediction,
        storm: observed.storm,
        worst: observed.worst,
        probes: observed.probes,
        machine: program.as_ref().map(|program| program.machine.to_owned()),
        libc: program.as_ref().and_then(|program| Some(program.libc?.to_string())),
        immutable: program.as_ref().map(|program| program.immutable),
        calmed_by: program.as_ref().and_then(|program| program.calmed_by.clone()),
        indexed_bindings: program.as_ref().and_then(|program| program.bindings),
        checked: program.map(Box::new),
        file: image.path,
        exec_path: image.exec_path,
        pid: image.pid,
        forked: image.forked,
        interpreter: image.interpreter,
        secure: image.secure,
        reached_entry: image.reached_entry,
        loader: image.loader,
        program: image.program,
        classes: image.classes,
        pages: image.pages,
        initialisers: image.initialisers,
        dropped: image.dropped,
        began_ns: image.began_ns,
        timeline: image.timeline,
        ..Seen::default()
    }
}

/// Returns the search of the loader after the entry point.
fn dlopen(image: &Image, closure: Option<&Closure>) -> Dlopen {
    const CACHE: &str = "/etc/ld.so.cache";
    let facts = closure.and_then(|closure| closure.facts.as_ref());
    let cache = facts.and_then(|facts| facts.cache_path.as_ref());
    let cache = cache.map_or(CACHE.into(), |path| path.as_bstr());
    let class = image.classes.iter().find(|class| class.class == Class::Dlopen);
    Dlopen {
        missed: class.map(|class| class.missed).unwrap_or_default(),
        hits: class.map_or(0, |class| class.hits),
        dropped: image.dlopens_dropped,
        ..dlopens(&image.dlopens, cache, &OsFs::new().session())
    }
}

/// Merges the calls of both shares into one list.
fn whole(shares: [&Share; 2]) -> Vec<SyscallRow> {
    let mut rows: FxHashMap<&str, SyscallRow> = FxHashMap::default();
    for row in shares.into_iter().flat_map(|share| &share.syscalls) {
        let sum = rows.entry(&row.name).or_default();
        sum.name.clone_from(&row.name);
        sum.count += row.count;
        sum.errors += row.errors;
        sum.total_ns += row.total_ns;
        sum.max_ns = sum.max_ns.max(row.max_ns);
    }
    let mut rows: Vec<SyscallRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// Returns the time of the loader's failed opens and stats in nanoseconds.
fn storm_ns(image: &Image) -> u64 {
    // Dropped lookups are only in the sum.
    if image.dropped > 0 {
        return image.loader.missed.ns;
    }
    let of_storm =
        |lookup: &&Lookup| lookup.by_loader && lookup.is_miss() && lookup.attempt().is_some();
    image.lookups.iter().filter(of_storm).map(|lookup| lookup.ns).sum()
}
