//! Observation and prediction together: each image gets the answer of `becalm check` for
//! the same program in the same environment, and its probes are attributed by that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use becalm_core::closure::Closure;
use becalm_core::cost::{Miss, Offenders, Storm};
use becalm_core::loader::Environment;
use becalm_core::observe::{Lookup, attribute};
use becalm_core::probe::{Call, Outcome, Probe, SearchSource};
use becalm_host::trace::Image;
use becalm_host::{FactChoice, OsFs};
use bstr::{BStr, BString, ByteSlice};

use super::Seen;
use crate::commands::assume::{Assumptions, stores};
use crate::commands::beside::{Beside, Scope};
use crate::commands::check::{Program, Verdict, check};
use crate::commands::targets::Target;
use crate::flags::Secure;
use crate::output::path_bytes;

/// The images joined with their predictions. The program, which is the last image of the
/// first process, comes last.
#[must_use]
pub(super) fn images(images: Vec<Image>, store: &OsString) -> Vec<Seen> {
    let first = images.first().map(|image| image.pid);
    let mut seen: Vec<Seen> = images.into_iter().map(|image| join(image, store)).collect();
    let program = seen.iter().rposition(|seen| Some(seen.image.pid) == first);
    if let Some(at) = program {
        let program = seen.remove(at);
        seen.push(program);
    }
    seen
}

fn join(image: Image, store: &OsString) -> Seen {
    let path = shown_path(&image);
    if image.forked {
        return Seen::unpredicted(image, path, "a fork: no loader was at work".to_owned());
    }
    match predict(&image, &path, store) {
        Ok((program, closure)) => predicted(image, path, program, &closure),
        Err(why) => Seen::unpredicted(image, path, why),
    }
}

/// The path a program was asked for by, where it leads to the program: that of a script
/// leads to the script.
fn shown_path(image: &Image) -> BString {
    let real = |path: &BString| Path::new(OsStr::from_bytes(path)).canonicalize().ok();
    let leads_there = real(&image.asked).is_some_and(|asked| path_bytes(&asked) == image.path);
    if leads_there { image.asked.clone() } else { image.path.clone() }
}

/// What `becalm check` says of an image.
pub(super) fn predict(
    image: &Image,
    path: &BString,
    store: &OsString,
) -> Result<(Program, Closure), String> {
    let assumed = assumptions(image, store);
    let host = Path::new(OsStr::from_bytes(path));
    let inside = assumed.fs.inside(host);
    let target = Target { shown: path.clone(), inside, host: host.to_owned(), named: true };
    match check(&assumed, &assumed.fs.session(), &target) {
        (Verdict::Checked(program), Some(closure)) => Ok((*program, closure)),
        (Verdict::Problem(problem), _) => Err(problem.reason),
        _ => Err("nothing that a loader starts".to_owned()),
    }
}

/// What the image was started with.
fn assumptions(image: &Image, store: &OsString) -> Assumptions {
    let variable = |name: &str| {
        let found = image.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    Assumptions {
        fs: OsFs::new(),
        environment: Environment {
            library_path: variable("LD_LIBRARY_PATH"),
            preload: variable("LD_PRELOAD"),
            audit: variable("LD_AUDIT"),
            secure: image.secure,
            ..Environment::default()
        },
        choice: FactChoice::default(),
        loader: None,
        secure: if image.secure { Secure::Yes } else { Secure::No },
        stores: stores(&store.as_bytes().into()),
    }
}

fn predicted(image: Image, path: BString, program: Program, closure: &Closure) -> Seen {
    let attributed = attribute(&image.lookups, closure);
    let scope = Scope { reached_entry: image.reached_entry, opens_alone: false };
    let complete = image.dropped == 0;
    Seen {
        beside: complete.then(|| Beside::of(&attributed, closure, scope)),
        worst: attributed.offenders(closure),
        storm: attributed.storm,
        storm_ns: storm_ns(&image),
        initialisers: attributed.initialisers,
        probes: attributed.probes,
        image,
        path,
        program: Ok(program),
    }
}

/// What the loader's failed opens and stats took.
#[must_use]
pub(super) fn storm_ns(image: &Image) -> u64 {
    if image.dropped > 0 {
        return image.loader.missed.ns;
    }
    let of_storm =
        |lookup: &&Lookup| lookup.by_loader && lookup.is_miss() && lookup.attempt().is_some();
    image.lookups.iter().filter(of_storm).map(|lookup| lookup.ns).sum()
}

/// The loader's lookups as probes that nobody is known to have asked for.
#[must_use]
pub(super) fn raw_probes(lookups: &[Lookup]) -> Vec<Probe> {
    let attempts = lookups.iter().filter(|lookup| lookup.by_loader).filter_map(Lookup::attempt);
    let probe = |attempt: becalm_core::record::strace::Attempt| Probe {
        needed_by: BString::default(),
        needed: attempt.path.rsplit_str("/").next().unwrap_or_default().into(),
        source: SearchSource::Direct,
        path: attempt.path,
        call: attempt.call,
        outcome: attempt.outcome,
    };
    attempts.map(probe).collect()
}

/// Their counts, as far as calls alone can tell.
#[must_use]
pub(super) fn raw_storm(probes: &[Probe]) -> Storm {
    let failed = |call: Call| {
        let missed = |p: &&Probe| p.call == call && p.outcome.is_failed_call();
        probes.iter().filter(missed).count() as u64
    };
    Storm {
        probes: probes.len() as u64,
        hits: probes.iter().filter(|probe| probe.outcome == Outcome::Hit).count() as u64,
        missed_opens: failed(Call::Open),
        missed_stats: failed(Call::Stat),
        ..Storm::default()
    }
}

/// Their misses, charged to the directories and names of their paths.
#[must_use]
pub(super) fn raw_offenders(probes: &[Probe]) -> Offenders {
    let failed = probes.iter().filter(|probe| probe.outcome.is_failed_call());
    Offenders::charge(failed.map(|probe| {
        let dir = probe.path.rfind_byte(b'/').map(|end| BStr::new(&probe.path[..end]));
        Miss {
            directory: dir,
            needed: probe.needed.as_ref(),
            object: probe.needed_by.as_ref(),
            source: probe.source,
            call: probe.call,
        }
    }))
}
