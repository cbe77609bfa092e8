//! The manual's sections of `becalm loader`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm loader`.
pub(crate) const LOADER: &[&str] = &[STATUS, JSON, LOADER_EXAMPLES];

const STATUS: &str = "Exit status
0
    It reads notes, caches or both.
1
    It reads neither, or not in the --store named.
2
    The file is not a loader, or cannot be run on this machine.";

const LOADER_EXAMPLES: &str = "Examples
becalm loader check /opt/glibc/lib/ld-linux-x86-64.so.2 --store /opt/store
    Does it read notes, and caches below /opt/store?";
