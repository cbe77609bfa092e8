//! Parts of records that can be compared with a prediction, and the list of a loader.

use bstr::{BStr, BString, ByteSlice};

use crate::probe::{Attempt, Call, Outcome, Probe, SearchSource};

/// Returns the attempts that are probes. The files that a loader reads for itself are left out (the
/// loader cache if it opens, the preload list, `/proc`, `/sys`), and so is the first attempt on `own`,
/// the object on the loader's command line. Since glibc 2.44 the loader reads tunables from its cache
/// (`_dl_load_cache_tunables`), which costs the first `stat` of the cache.
#[must_use]
pub fn candidates(
    attempts: Vec<Attempt>,
    cache: Option<&BStr>,
    own: Option<&BStr>,
) -> Vec<Attempt> {
    let mut own = own;
    let mut is_for_tunables = true;
    attempts
        .into_iter()
        .filter(|attempt| {
            let path = attempt.path.as_bstr();
            let opened = attempt.call == Call::Open && attempt.outcome == Outcome::Hit;
            if opened && own == Some(path) {
                own = None;
                return false;
            }
            if attempt.call == Call::Stat && Some(path) == cache && is_for_tunables {
                is_for_tunables = false;
                return false;
            }
            // A missing loader cache is a probe, a successful open of it is not.
            let loaders_own = opened && Some(path) == cache
                || path == "/etc/ld.so.preload"
                || path.starts_with(b"/proc/") && !is_below_process(path)
                || path.starts_with(b"/sys/");
            !loaders_own
        })
        .collect()
}

/// Returns true for a path below a directory of a process, as `/proc/self/cwd/lib/libz.so.1`: a search path
/// can name it, and the loader reads no file there for itself.
fn is_below_process(path: &BStr) -> bool {
    let mut names = path.splitn_str(5, "/").skip(2);
    let is_process = |name: &[u8]| {
        name.ends_with(b"self") || !name.is_empty() && name.iter().all(u8::is_ascii_digit)
    };
    names.next().is_some_and(is_process) && names.count() == 2
}

/// Returns true for the probe of a missing loader cache itself, which `LD_DEBUG` does not print.
#[must_use]
pub fn is_loader_cache_file(probe: &Probe) -> bool {
    matches!(probe.source, SearchSource::LoaderCache | SearchSource::PackageCache)
        && probe.path.ends_with(b"/ld.so.cache")
}

/// Parses the paths of a loader's list (`LD_TRACE_LOADED_OBJECTS`), in load order: the libraries that
/// it found and the loader itself.
#[must_use]
pub fn listed(list: &[u8]) -> Vec<BString> {
    let path = |line: &[u8]| {
        let (line, _) = line.trim_ascii().rsplit_once_str(b" (0x")?;
        let path = line.split_once_str(b" => ").map_or(line, |(_, path)| path);
        path.contains(&b'/').then(|| BString::from(path))
    };
    list.split(|byte| *byte == b'\n').filter_map(path).collect()
}

#[cfg(test)]
mod tests;
