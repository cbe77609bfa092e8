//! Real loaders, run and read.

use std::fs;
use std::path::Path;

use becalm_core::probe::{Call, Outcome};

use super::*;

/// A glibc program that is on every machine the tests run on.
const PROGRAM: &str = "/bin/true";

fn tracer_is_there() -> bool {
    let there = Path::new("/usr/bin/strace").exists();
    if !there {
        eprintln!("skipped: strace is not installed");
        assert!(std::env::var_os("BECALM_REQUIRE_ALL").is_none(), "strace is required");
    }
    there
}

#[test]
fn a_trace_names_what_the_library_path_cost() {
    let start = Start::new(PROGRAM, Way::Trace).env("LD_LIBRARY_PATH", "/nonexistent-becalm");
    let said = ld_debug(&start).unwrap();
    assert!(said.probes.len() >= 2, "{said:?}");
    assert!(said.probes[0].path.starts_with(b"/nonexistent-becalm/"));
    assert_eq!(said.probes[0].outcome, Outcome::Miss);
    assert_eq!(said.probes.last().unwrap().outcome, Outcome::Hit);
    assert!(said.probes.iter().all(|probe| probe.needed_by == PROGRAM));
    assert_eq!((said.fatal, said.missing), (None, vec![]));
}

#[test]
fn strace_sees_the_same_opens_and_the_stats_between() {
    if !tracer_is_there() {
        return;
    }
    let start = Start::new(PROGRAM, Way::Trace).env("LD_LIBRARY_PATH", "/nonexistent-becalm");
    let said = ld_debug(&start).unwrap();
    let attempts = strace(&start).unwrap().attempts();
    let opened: Vec<_> = attempts
        .iter()
        .filter(|a| a.call == Call::Open && a.path != "/etc/ld.so.cache")
        .map(|a| (&a.path, a.outcome))
        .collect();
    let tried: Vec<_> = said.probes.iter().map(|p| (&p.path, p.outcome)).collect();
    assert_eq!(opened, tried);
    let stats = attempts.iter().filter(|a| a.call == Call::Stat).count();
    assert!(stats >= 1, "{attempts:?}");
}

#[test]
fn a_loader_that_gives_up_says_on_what() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("libc.so.6");
    fs::write(&bad, b"no object").unwrap();
    let start = Start::new(PROGRAM, Way::Trace).env("LD_LIBRARY_PATH", dir.path());
    let said = ld_debug(&start).unwrap();
    let last = said.probes.last().unwrap();
    assert_eq!(
        (last.path.as_slice(), last.outcome),
        (bad.as_os_str().as_encoded_bytes(), Outcome::NotElf)
    );
    assert!(said.fatal.unwrap().starts_with(bad.as_os_str().as_encoded_bytes()));
}

#[test]
fn a_run_without_end_is_ended() {
    let mut start = Start::new("/usr/bin/yes", Way::Execute);
    start.limit = Duration::from_millis(5);
    assert!(matches!(ld_debug(&start), Err(OracleError::TooLong { .. })));
}

#[test]
fn a_command_that_is_not_there_is_an_error() {
    let start = Start::new("/nonexistent-becalm", Way::Trace);
    assert!(matches!(ld_debug(&start), Err(OracleError::Start { .. })));
}
