//! Any start under musl: the walk ends, and its probes, answers and counts agree.

#![no_main]

mod walk;

use becalm_core::loader::Libc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: walk::Input<'_>| walk::check(&input, Libc::Musl));
