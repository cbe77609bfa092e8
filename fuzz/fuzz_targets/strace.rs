//! Any bytes as an `strace` record: read to the end, no panic.

#![no_main]

use becalm_core::record::compare;
use becalm_testing::strace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let attempts = strace::attempts(&strace::parse(data));
    let kept = compare::candidates(attempts.clone(), None, None);
    assert!(kept.len() <= attempts.len());
});
