//! Parses any text as the output of `ld.so --list-diagnostics`, without a panic. A model must run
//! with the resulting facts.

#![no_main]

use becalm_core::loader::{Libc, facts};
use becalm_core::search::hwcaps;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some(facts) = facts::from_diagnostics(text) else { return };
    assert!(matches!(facts.libc, Libc::Glibc(_)));
    assert!(!facts.system_dirs.is_empty());
    assert!(facts.platform_bit.is_none_or(|bit| bit < 64));
    assert_eq!(hwcaps::subdirectories(&facts).last().map(|last| last.is_empty()), Some(true));
});
