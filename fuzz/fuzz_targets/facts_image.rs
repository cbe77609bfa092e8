//! Any bytes as a loader's image: no panic, and facts that the bytes hold.

#![no_main]

use becalm_core::loader::facts;
use becalm_core::loader::{GlibcVersion, Libc, LoaderFacts};
use bstr::ByteSlice;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (bytes, hint) = input;
    let any = Libc::Glibc(GlibcVersion { major: 2, minor: 36 });
    let libc = facts::libc_of(bytes, hint).unwrap_or(any);
    let Some(found) = facts::from_bytes(bytes, libc, LoaderFacts::default()) else { return };
    assert!(!found.system_dirs.is_empty());
    assert_eq!(found.libc, libc);
    if libc == Libc::Musl {
        return;
    }
    assert_eq!(found.cache_path, facts::cache_path(bytes));
    for text in found.system_dirs.iter().chain(&found.cache_path) {
        assert!(text.starts_with(b"/") && bytes.contains_str(text));
    }
});
