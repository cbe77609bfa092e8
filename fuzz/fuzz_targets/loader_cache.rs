//! Any bytes as a loader cache: no panic, no endless search, and an answer that is one
//! of the entries.

#![no_main]

use becalm_core::elf::{Class, Endian, Ident};
use becalm_core::loader::{GlibcVersion, Libc, LoaderFacts};
use becalm_core::search::loader_cache::{CacheQuery, LoaderCache};
use bstr::{BStr, BString};
use libfuzzer_sys::fuzz_target;

fn ident(endian: Endian) -> Ident {
    let (class, machine) = match endian {
        Endian::Little => (Class::Elf64, 62),
        Endian::Big => (Class::Elf64, 22),
    };
    Ident { class, endian, os_abi: 0, abi_version: 0, e_type: 3, machine, flags: 0 }
}

fn facts(minor: u16) -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor }),
        system_dirs: Vec::new(),
        cache_path: None,
        lib: BString::default(),
        platform: None,
        hwcaps: ["x86-64-v3", "x86-64-v2"].map(BString::from).to_vec(),
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 2,
        platform_bit: Some(50),
        reads: Default::default(),
        no_exec_stack: false,
    }
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (bytes, needed) = input;
    for endian in [Endian::Little, Endian::Big] {
        let ident = ident(endian);
        let Some(cache) = LoaderCache::parse_for(bytes.to_vec(), &ident) else { continue };
        for minor in [31, 33, 36, 43] {
            let query = CacheQuery::new(&ident, &facts(minor));
            if let Some(path) = cache.lookup(BStr::new(needed), &query) {
                assert!(cache.entries().any(|entry| entry.path == path));
            }
        }
    }
});
