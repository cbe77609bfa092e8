//! Any bytes as an `LD_DEBUG` record: read to the end, no panic.

#![no_main]

use becalm_core::record::ld_debug;
use becalm_testing::strace::not_found;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let missing = not_found(data);
    for process in ld_debug::parse(data) {
        let _ = process.probes(&missing);
    }
});
