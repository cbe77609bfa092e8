//! Functions that the tests of several crates share.

pub mod elf;
#[cfg(feature = "strace")]
pub mod oracle;
pub mod strace;
#[cfg(feature = "strace")]
pub mod test_user;
pub mod vectors;

pub use becalm_core::fs::mem;

/// C source of a program that starts another one under a seccomp filter.
pub const FILTER: &str = include_str!("filter.c");

/// Prints why a test, or a part of one, is skipped.
///
/// # Panics
/// Panics if `BECALM_REQUIRE_ALL` is 1: nothing may be skipped then.
pub fn skip(reason: &str) {
    let all_required = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_required, "BECALM_REQUIRE_ALL=1, but: {reason}");
    eprintln!("skipped: {reason}");
}

/// Calls [`skip`] and returns true, as a part of a condition.
///
/// # Panics
/// As [`skip`].
#[must_use]
pub fn skipped(reason: &str) -> bool {
    skip(reason);
    true
}
