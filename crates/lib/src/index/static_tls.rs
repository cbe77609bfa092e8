//! The amount of static TLS that a session gets.

/// The tunable's value in every session: the most with which a thread with the smallest stack
/// (`PTHREAD_STACK_MIN`, 16 KiB) still starts, for glibc takes the surplus from each thread's
/// stack (2.36 `nptl/allocatestack.c`). glibc's own default is 512.
pub const SESSION_STATIC_TLS: u64 = 8192;

/// The most that a session gets for programs of its index. With more than this, threads with a
/// stack of 64 KiB, which are common, would not start in any program.
pub const LARGEST_STATIC_TLS: u64 = 49_152;
