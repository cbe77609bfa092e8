//! Expands any string as a path with dynamic string tokens, with any values, without a panic. A
//! string without a token must stay unchanged. A path that secure-execution mode accepts must be
//! equal to the result of the plain rules.

#![no_main]

use becalm_core::search::dst::{self, Secure, Tokens};
use bstr::{BStr, BString};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    path: &'a [u8],
    origin: Option<&'a [u8]>,
    lib: &'a [u8],
    platform: Option<&'a [u8]>,
    is_program: bool,
}

fuzz_target!(|input: Input<'_>| {
    let system_dirs = ["/lib/", "/usr/lib/"].map(BString::from);
    let secure =
        Secure { is_program: input.is_program, system_dirs: &system_dirs, normalizes: false };
    let plain = Tokens {
        origin: input.origin.map(BStr::new),
        lib: BStr::new(input.lib),
        platform: input.platform.map(BStr::new),
        secure: None,
    };
    let path = BStr::new(input.path);
    let expanded = dst::expand(path, &plain);
    if !dst::has_token(path) {
        assert_eq!(expanded, Some(path.to_owned()));
    }
    let careful = Tokens { secure: Some(secure), ..plain };
    if let Some(allowed) = dst::expand(path, &careful) {
        assert_eq!(Some(&allowed), expanded.as_ref());
    }
    let normalizing = Tokens { secure: Some(Secure { normalizes: true, ..secure }), ..plain };
    let normalized = dst::expand(path, &normalizing);
    let starts_with_token = path == "$ORIGIN" || path.starts_with(b"$ORIGIN/");
    let judged = input.is_program && starts_with_token;
    if let Some(path) = normalized.filter(|_| judged) {
        assert!(!path.split(|byte| *byte == b'/').any(|part| part == b".."));
    }
});
