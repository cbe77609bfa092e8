//! Runs real loaders and reads their records.

use std::fs;
use std::path::Path;

use becalm_core::probe::{Call, Outcome};

use super::*;

/// A glibc program that exists on every machine of these tests.
const PROGRAM: &str = "/bin/true";

fn has_strace() -> bool {
    let found = Path::new("/usr/bin/strace").exists();
    if !found {
        crate::skip("strace is not installed");
    }
    found
}

#[test]
fn a_trace_has_the_probes_of_the_library_path() {
    let start = Start::new(PROGRAM, Launch::Trace).env("LD_LIBRARY_PATH", "/nonexistent-becalm");
    let record = ld_debug(&start).unwrap();
    assert!(record.probes.len() >= 2, "{record:?}");
    assert!(record.probes[0].path.starts_with(b"/nonexistent-becalm/"));
    assert_eq!(record.probes[0].outcome, Outcome::Miss);
    assert_eq!(record.probes.last().unwrap().outcome, Outcome::Hit);
    assert!(record.probes.iter().all(|probe| probe.needed_by == PROGRAM));
    assert_eq!((record.fatal, record.missing), (None, vec![]));
}

#[test]
fn strace_sees_the_same_opens_and_the_stats_among_them() {
    if !has_strace() {
        return;
    }
    let start = Start::new(PROGRAM, Launch::Trace).env("LD_LIBRARY_PATH", "/nonexistent-becalm");
    let record = ld_debug(&start).unwrap();
    let attempts = crate::strace::strace(&start).unwrap().attempts();
    let opened: Vec<_> = attempts
        .iter()
        .filter(|a| a.call == Call::Open && a.path != "/etc/ld.so.cache")
        .map(|a| (&a.path, a.outcome))
        .collect();
    let tried: Vec<_> = record.probes.iter().map(|p| (&p.path, p.outcome)).collect();
    assert_eq!(opened, tried);
    let stats = attempts.iter().filter(|a| a.call == Call::Stat).count();
    assert!(stats >= 1, "{attempts:?}");
}

#[test]
fn a_fatal_error_of_the_loader_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("libc.so.6");
    fs::write(&bad, b"no object").unwrap();
    let start = Start::new(PROGRAM, Launch::Trace).env("LD_LIBRARY_PATH", dir.path());
    let record = ld_debug(&start).unwrap();
    let last = record.probes.last().unwrap();
    assert_eq!(
        (last.path.as_slice(), last.outcome),
        (bad.as_os_str().as_encoded_bytes(), Outcome::NotElf)
    );
    assert!(record.fatal.unwrap().starts_with(bad.as_os_str().as_encoded_bytes()));
}

#[test]
fn a_run_that_exceeds_its_limit_is_killed() {
    let mut start = Start::new("/usr/bin/yes", Launch::Execute);
    start.limit = Duration::from_millis(5);
    assert!(matches!(ld_debug(&start), Err(TraceError::TooLong { .. })));
}

#[test]
fn a_missing_command_is_an_error() {
    let start = Start::new("/nonexistent-becalm", Launch::Trace);
    assert!(matches!(ld_debug(&start), Err(TraceError::Failed { what: "cannot be started", .. })));
}

#[test]
fn missing_libraries_are_read_from_the_list() {
    let list =
        b"\tlinux-vdso.so.1 (0x00007ffd)\n\tlibx.so => not found\n\tliby.so => /y/liby.so (0x1)\n";
    assert_eq!(not_found(list), [BString::from("libx.so")]);
}

#[test]
fn failed_preloads_are_read_from_the_warnings() {
    let warnings = b"ERROR: ld.so: object 'libnope.so' from LD_PRELOAD cannot be preloaded \
        (cannot open shared object file): ignored.\n\
        ERROR: ld.so: object '/x/au.so' cannot be loaded as audit interface: no; ignored.\n";
    assert_eq!(passed_over(warnings), [BString::from("libnope.so"), "/x/au.so".into()]);
}
