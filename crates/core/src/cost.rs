//! Closure → counts by directory, needed string and kind.
