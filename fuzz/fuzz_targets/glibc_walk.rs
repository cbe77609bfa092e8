//! Any start under glibc: the walk ends, and its probes, answers and counts agree.

#![no_main]

mod walk;

use becalm_core::loader::{GlibcVersion, Libc};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, walk::Input<'_>)| {
    let (release, input) = input;
    // A release on each side of every change of the rules.
    let minor = [31, 32, 33, 36, 37, 38, 39, 43][usize::from(release) % 8];
    walk::check(&input, Libc::Glibc(GlibcVersion { major: 2, minor }));
});
