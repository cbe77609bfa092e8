//! The manual's sections of `becalm fix`, `undo` and `verify`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm fix`.
pub(crate) const FIX: &[&str] = &[FIX_STATUS, FIX_CARRIERS, FIX_WRITING, JSON, FIX_EXAMPLES];

const FIX_STATUS: &str = "Exit status
0
    All was done, or there was nothing to do. Skipped and deferred answers are listed and do not
    count as failures.
1
    A file was not changed because the change would make a program load other libraries or make its
    start longer, or because two answers contradict each other.
2
    A file could not be read or written; unless unsynced, it is unchanged. Others are processed.
130
    Interrupted. The current batch was finished: each file has its old or its new content, and the
    same command continues from there.";

const FIX_CARRIERS: &str = "Strategies
audit
    Each program gets an index of its start beside it and a DT_AUDIT entry that names it; works with
    glibc from 2.32 on. No library is changed.
note
    Each object gets a note with the answers of its own run path; a loader that reads notes opens
    them directly. LD_LIBRARY_PATH still wins. Directories that may change (outside --store) keep
    their place in the search.
absolute
    Each needed string becomes an absolute path; works with any loader, at once. LD_LIBRARY_PATH
    does not affect absolute paths, so the C library, the loader and the GL stack (libGL, libEGL,
    libvulkan, libcuda and others) keep their short names.
farm
    Each object gets a directory of links in its package, lib/becalm-farm, first in its run path;
    works with any loader. It links the libraries that the object itself needs; with --closure,
    those of a program's whole closure, and then the program's libraries are changed as well. The
    loader's hwcaps probes remain.
ldcache
    Each package gets an etc/ld.so.cache of the libraries that its objects need, for a loader that
    reads such caches. Written for the target's architecture without ldconfig. With --closure it
    answers for all libraries that the package's programs load, as Guix's loader expects.";

const FIX_WRITING: &str = "Writing
scope
    Only files that are named, or are below a named folder, are changed. Files that a strategy makes
    for an object are put into the object's package or beside it. farm --closure is the exception,
    and prints what it changes elsewhere.
by default
    A new file is written beside the old one, synced to disk and renamed over it. Mode, owner,
    extended attributes and capabilities are kept.
--in-place
    The file itself is written: first the appended part with the old bytes, then the ranges inside.
    Set-id files and files with capabilities are refused, because the kernel would remove their
    privileges.
undo
    The old bytes are in a trailer at the end of each file. strip removes the trailer; undo is then
    impossible, but the changes keep working.
refused
    Files with something appended to the ELF image (AppImage, PyInstaller), the loader itself,
    dynamic edits of static programs, files with several names unless --hardlinks says what to do,
    set-id files without --setuid.";

pub(crate) const FIX_EXAMPLES: &str = "Examples
becalm fix --with note --dry-run --store /opt/store /opt/store
    What would be written, and the misses that each program would still have.
becalm fix --with absolute ./result
    Remove the search of a package, for any loader.
becalm fix --with note --prefix-map $PWD/out=/nix/store/h-name out
    In a package's fixup phase, before it is at its final path.
becalm verify --load ./result
    Check that it still loads the same libraries.
becalm undo ./result
    Restore every byte.";
