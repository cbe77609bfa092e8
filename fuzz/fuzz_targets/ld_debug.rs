//! Any bytes as an `LD_DEBUG` record: read to the end, no panic.

#![no_main]

use becalm_core::record::{compare, ld_debug};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let missing = compare::not_found(data);
    for process in ld_debug::parse(data) {
        let _ = process.probes(&missing);
    }
});
