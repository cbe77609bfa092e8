//! `becalm demo`.

/// Last sections of the help and the man page of `becalm demo`.
pub(crate) const DEMO: &[&str] = &[DEMO_STATUS, DEMO_EXAMPLES];

const DEMO_STATUS: &str = "Exit status
0
    The demonstration is complete.
2
    It failed: the program does not exist, the disk is full, or the C library has no audit modules.
130
    Interrupted (SIGINT). Nothing is left behind.";

const DEMO_EXAMPLES: &str = "Examples
becalm demo
    With the program of /usr/bin that has the most libraries.
becalm demo git
    With git.
becalm demo --keep storm git
    The same; the store and its index stay in ./storm.";
