//! Compares the facts from a loader's bytes, and the hwcaps subdirectories from these facts, with the
//! loader's own output.

mod real;

use becalm_core::loader::{LoaderFacts, facts};
use becalm_core::search::hwcaps::subdirectories;
use real::{debug_lines, facts_of_this_machine, loader};

#[test]
fn the_facts_from_the_bytes_equal_the_diagnostics() {
    let Some(said) = facts_of_this_machine() else { return };
    let bytes = std::fs::read(loader()).expect("the loader that ran");
    let libc = facts::libc_of(&bytes, b"").expect("a release");
    let cpu = LoaderFacts {
        hwcaps: said.hwcaps.clone(),
        legacy_hwcaps: said.legacy_hwcaps.clone(),
        platform: said.platform.clone(),
        hwcap_mask: said.hwcap_mask,
        platform_bit: said.platform_bit,
        ..LoaderFacts::default()
    };
    let mut read = facts::from_bytes(&bytes, libc, cpu).expect("the facts");
    if said.system_dirs.iter().all(|dir| !dir.starts_with(b"/lib")) {
        // The loader of a store may be patched to read a cache at another path than it prints.
        read.cache_path.clone_from(&said.cache_path);
    }
    // The diagnostics lack this field.
    read.reads.clone_from(&said.reads);
    assert_eq!(read, said);
}

#[test]
fn the_subdirectories_equal_those_the_loader_lists() {
    let Some(facts) = facts_of_this_machine() else { return };
    let args = ["--library-path", "/absent-dir", "--inhibit-cache", "--list", "/bin/true"];
    let lines = debug_lines(None, &args).expect("a loader that runs");
    let list = lines.iter().find_map(|line| line.strip_prefix("search path=")).expect("a list");
    let listed: Vec<&str> = list.split('\t').next().unwrap_or(list).split(':').collect();
    let expected: Vec<String> = subdirectories(&facts)
        .iter()
        .map(|prefix| format!("/absent-dir/{prefix}").trim_end_matches('/').to_owned())
        .collect();
    assert_eq!(listed, expected);
}
