//! `becalm verify`.

use crate::fix::manual::FIX_EXAMPLES;
use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm verify`.
pub(crate) const VERIFY: &[&str] = &[VERIFY_STATUS, JSON, FIX_EXAMPLES];

const VERIFY_STATUS: &str = "Exit status
0
    Every answer equals that of the plain search, or there is nothing to compare.
1
    An answer is stale or missing, a note cannot be read, an index is stale, damaged or missing, a
    farm or a loader cache is in a store that --store does not name, or, with --load, a program
    loads other objects than without its strategies.
2
    A file could not be read, and no index is stale, damaged or missing.";
