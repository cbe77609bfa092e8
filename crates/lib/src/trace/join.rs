//! Joins observation and prediction: the probes of each image are attributed by the model's
//! prediction of the same start.

use becalm_core::closure::Closure;
use becalm_core::observe::tally::ClassLookups;
use becalm_core::observe::{self, Attributed, Class, Dlopens, Lookup, SyscallRow, attribute};
use becalm_core::probe::{Call, Outcome};
use becalm_host::OsFs;
use becalm_host::trace::{Image, Share};
use bstr::{BString, ByteSlice};
use rustc_hash::FxHashMap;

use crate::beside::{Beside, Scope};
use crate::check::Program;
use crate::files::{FileList, FileUse, StartFile};
use crate::trace::options::Options;
use crate::trace::predict::{Answer, Answers, predict, shown_path};
use crate::trace::report::{Dlopen, Needed, Seen};

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
    if image.forked {
        let path = shown_path(&image);
        return unpredicted(image, path, "a fork: no loader was at work".to_owned());
    }
    let (path, said) = answer.unwrap_or_else(|| predict(&image, options));
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
    let dlopens = dlopens(&image, None);
    Seen { no_prediction: Some(why), ..Seen::of(image, path, observed, dlopens) }
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

impl Dlopen {
    fn of(dlopens: Dlopens, classes: &[ClassLookups], dropped: u64) -> Self {
        let found_misses = dlopens.found_misses();
        let Dlopens { probes, worst, not_found } = dlopens;
        let class = classes.iter().find(|class| class.class == Class::Dlopen);
        let needed = worst.needed.into_iter().map(|misses| {
            let found = !not_found.contains(&misses.name);
            Needed { misses, found }
        });
        Self {
            missed: class.map(|class| class.missed).unwrap_or_default(),
            hits: class.map_or(0, |class| class.hits),
            found_misses,
            directories: worst.directories,
            needed: needed.collect(),
            objects: worst.objects,
            probes,
            dropped,
        }
    }
}

impl Seen {
    /// Returns the observations of an image, without those that need a prediction.
    fn of(image: Image, path: BString, observed: Attributed, dlopens: Dlopens) -> Self {
        let storm_ns = storm_ns(&image);
        let text = |text: &BString| text.to_str_lossy().into_owned();
        let variables = image.environment.iter();
        Self {
            path,
            file: image.path,
            exec_path: image.exec_path,
            pid: image.pid,
            forked: image.forked,
            interpreter: image.interpreter,
            secure: image.secure,
            reached_entry: image.reached_entry,
            storm: observed.storm,
            worst: observed.worst,
            storm_ns,
            syscalls: whole([&image.loader, &image.program]),
            loader: image.loader,
            program: image.program,
            dlopen: Dlopen::of(dlopens, &image.classes, image.dlopens_dropped),
            classes: image.classes,
            pages: image.pages,
            initialisers: image.initialisers,
            dropped: image.dropped,
            environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
            probes: observed.probes,
            began_ns: image.began_ns,
            timeline: image.timeline,
            ..Self::default()
        }
    }
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
