//! `becalm undo`.

use crate::fix::manual::FIX_EXAMPLES;
use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm undo`.
pub(crate) const UNDO: &[&str] = &[UNDO_STATUS, UNDO_WRITING, JSON, FIX_EXAMPLES];

const UNDO_STATUS: &str = "Exit status
0
    Every file is restored, or becalm had not changed it.
2
    A file could not be read or restored, or another tool has changed it since; it is unchanged. All
    other files are processed.
130
    Interrupted. The current batch was finished: each file has its old or its new content, and the
    same command continues from there.";

const UNDO_WRITING: &str = "Writing
scope
    Files that are named, or are below a named folder; and the libraries that fix --with farm
    --closure changed for them elsewhere. Farms, loader caches and indexes that becalm made for
    these files are removed. A package's loader cache is kept while it answers for objects that are
    not named.
by default
    A file with the old bytes is written beside the changed one, synced to disk and renamed over it.
    Mode, owner, extended attributes and capabilities are kept.
--in-place
    The file itself is written, and then shortened by the trailer with the old bytes. Needs no room
    on the disk. Set-id files and files with capabilities are refused, because the kernel would
    remove their privileges.
refused
    Files that another tool has changed since, files with several names unless --hardlinks says what
    to do, set-id files without --setuid. Each is printed on stderr with the reason.";
