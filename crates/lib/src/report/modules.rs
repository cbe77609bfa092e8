//! The imports of a traced run in time: the packages of an interpreter, by the file lookups for each.

use becalm_host::trace::TimedLookup;
use bstr::{BStr, ByteSlice};
use rustc_hash::FxHashMap;

use crate::escape::shown;

/// Folders of packages; those of Python's own modules are named as its release.
const FOLDERS: [&str; 4] = ["site-packages", "dist-packages", "lib-dynload", "node_modules"];
const PYTHON: &str = "python3.";

/// Returns the packages and their times in nanoseconds, most first: the time from each lookup for a package to the
/// next lookup of the main thread, or to the end.
pub(super) fn by_time(timeline: &[TimedLookup], main: u32, end_ns: u64) -> Vec<(String, u64)> {
    let of_program = timeline.iter().filter(|it| it.task == main && it.class.is_some());
    let lookups: Vec<(u64, Option<&BStr>)> =
        of_program.map(|it| (it.at_ns, package(it.lookup.path.as_ref()))).collect();
    let ends = lookups.iter().skip(1).map(|next| next.0).chain([end_ns]);
    let mut times: FxHashMap<&BStr, u64> = FxHashMap::default();
    for ((from, package), to) in lookups.iter().zip(ends) {
        if let Some(package) = package {
            *times.entry(package).or_default() += to.saturating_sub(*from);
        }
    }
    let mut times: Vec<(String, u64)> = times.into_iter().map(|it| (shown(it.0), it.1)).collect();
    times.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    times
}

/// Returns the name below the last folder of packages on a path, without the ending of a file.
fn package(path: &BStr) -> Option<&BStr> {
    let parts: Vec<&[u8]> = path.split_str("/").collect();
    let is_folder = |part: &&[u8]| {
        FOLDERS.iter().any(|name| *part == name.as_bytes()) || part.starts_with_str(PYTHON)
    };
    let mut below = parts[parts.iter().rposition(is_folder)? + 1..].iter();
    let name = below.find(|part| !part.is_empty() && **part != b"__pycache__")?;
    Some(name.split_str(".").next()?.as_bstr())
}

#[cfg(test)]
mod tests {
    use becalm_core::observe::{Class, Kind, Lookup};

    use super::*;

    fn at(at_ns: u64, path: &str, task: u32) -> TimedLookup {
        let lookup = Lookup {
            kind: Kind::Open,
            path: path.into(),
            at_cwd: true,
            errno: None,
            ns: 1,
            by_loader: false,
        };
        TimedLookup { task, at_ns, class: Some(Class::Python), lookup }
    }

    #[test]
    fn a_time_is_that_to_the_next_lookup_and_belongs_to_the_package() {
        let timeline = [
            at(10, "/usr/lib/python3.11/__pycache__/os.cpython-311.pyc", 1),
            at(15, "/v/lib/python3.11/site-packages/numpy/core/a.py", 1),
            at(20, "/v/lib/python3.11/site-packages/scipy", 2),
            at(35, "/v/lib/python3.11/site-packages", 1),
            at(40, "/v/lib/python3.11/site-packages/numpy/x.so", 1),
            at(47, "/etc/localtime", 1),
        ];
        let expected = [("numpy".to_owned(), 27), ("os".to_owned(), 5)];
        assert_eq!(by_time(&timeline, 1, 50), expected);
        assert_eq!(by_time(&[], 1, 50), []);
    }
}
