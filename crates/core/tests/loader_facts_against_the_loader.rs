//! The facts read from a loader's bytes, and the hwcaps subdirectories made of them,
//! against what that loader says and does.

mod real;

use becalm_core::loader::facts;
use becalm_core::search::hwcaps::{CpuCaps, subdirectories};
use real::{debug_lines, facts_of_this_machine, loader};

#[test]
fn the_bytes_of_a_loader_say_what_it_says_itself() {
    let Some(said) = facts_of_this_machine() else { return };
    let bytes = std::fs::read(loader()).expect("the loader that ran");
    let libc = facts::libc_of(&bytes, b"").expect("a release");
    let cpu = CpuCaps {
        hwcaps: said.hwcaps.clone(),
        legacy_hwcaps: said.legacy_hwcaps.clone(),
        platform: said.platform.clone(),
        hwcap_mask: said.hwcap_mask,
        platform_bit: said.platform_bit,
    };
    let mut read = facts::from_bytes(&bytes, libc, cpu).expect("the facts");
    if said.system_dirs.iter().all(|dir| !dir.starts_with(b"/lib")) {
        // A store loader may be patched to read a cache elsewhere than it says.
        read.cache_path.clone_from(&said.cache_path);
    }
    // Of this only the bytes tell.
    read.reads.clone_from(&said.reads);
    assert_eq!(read, said);
}

#[test]
fn the_subdirectories_are_those_the_loader_lists() {
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
