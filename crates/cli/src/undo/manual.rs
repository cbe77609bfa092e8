//! `becalm undo`.

use crate::fix::manual::{FIX_EXAMPLES, FIX_JSON, FIX_STATUS, FIX_WRITING};
use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm undo`.
pub(crate) const UNDO: &[&Section] = &[&FIX_STATUS, &FIX_WRITING, &FIX_JSON, &FIX_EXAMPLES];
