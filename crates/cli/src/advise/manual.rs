//! The manual's sections of `becalm advise`.

use crate::terminal::manual::{ENVIRONMENT, JSON};

/// Last sections of the help and the man page of `becalm advise`.
pub(crate) const ADVISE: &[&str] = &[STATUS, ENVIRONMENT, JSON, EXAMPLES];

const STATUS: &str = "Exit status
0
    Each strategy was predicted.
2
    The program does not exist, or is a library, static, or not for Linux.";

const EXAMPLES: &str = "Examples
becalm advise inkscape
    The time and the misses that each strategy leaves.
becalm advise --store /sw ./prog
    The same, if packages below /sw never change.";
