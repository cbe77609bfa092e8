//! Tests what is kept of records, lists and warnings.

use super::*;

fn attempt(path: &str, call: Call, outcome: Outcome) -> Attempt {
    Attempt { call, path: path.into(), outcome }
}

#[test]
fn files_that_the_loader_reads_for_itself_are_not_candidates() {
    let attempts = vec![
        attempt("/x/own", Call::Open, Outcome::Hit),
        attempt("/etc/ld.so.preload", Call::Open, Outcome::Hit),
        attempt("/etc/ld.so.cache", Call::Open, Outcome::Hit),
        attempt("/etc/ld.so.cache", Call::Open, Outcome::Miss),
        attempt("/x/own", Call::Open, Outcome::Hit),
    ];
    let kept = candidates(attempts.clone(), Some("/etc/ld.so.cache".into()), Some("/x/own".into()));
    assert_eq!(kept, attempts[3..]);
}

#[test]
fn a_library_below_a_directory_of_a_process_is_a_probe() {
    for (path, is_probe) in [
        ("/proc/self/cwd/lib/libz.so.1", true),
        ("/proc/17/fd/9/libz.so.1", true),
        ("/proc/thread-self/cwd/libz.so.1", true),
        ("/proc/self/maps", false),
        ("/proc/sys/kernel/osrelease", false),
        ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", false),
    ] {
        let attempt = Attempt { path: path.into(), call: Call::Open, outcome: Outcome::Hit };
        assert_eq!(candidates(vec![attempt], None, None).len(), usize::from(is_probe), "{path}");
    }
}
