//! The manual's sections of `becalm fix`, `undo` and `verify`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm fix`.
pub(crate) const FIX: &[&Section] =
    &[&FIX_STATUS, &FIX_CARRIERS, &FIX_WRITING, &FIX_JSON, &FIX_EXAMPLES];

pub(crate) const FIX_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        (
            "0",
            "All was done, or there was nothing to do. What was passed over or left to the \
               search is told and is no failure.",
        ),
        (
            "1",
            "Something was left as it is because changing it would change what a program loads, \
             or make its start longer, or because two answers contradict each other.",
        ),
        (
            "2",
            "A file could not be looked at or written; it is as it was. All others are done all \
             the same.",
        ),
        (
            "130",
            "Interrupted. The batch at work was finished: each file is the old one or the new \
             one, and the same command goes on from there.",
        ),
    ],
};

const FIX_CARRIERS: Section = Section {
    title: "Strategies",
    entries: &[
        (
            "note",
            "Each object gets a note with the answers of its own run path; a loader that reads \
             notes opens them directly. LD_LIBRARY_PATH still wins. Directories that may change \
             (outside --store) keep their place in the search.",
        ),
        (
            "absolute",
            "Each needed string becomes an absolute path; works with any loader, at once. \
             LD_LIBRARY_PATH no longer reaches these, so the C library, the loader and the GL \
             stack (libGL, libEGL, libvulkan, libcuda and their like) stay short.",
        ),
        (
            "farm",
            "Each object gets a directory of links in its package, lib/becalm-farm, first in its \
             run path; works with any loader. It links what the object itself needs; with \
             --closure what a program's whole closure needs, and then the program's libraries \
             are changed as well. The loader's hwcaps probes stay.",
        ),
        (
            "ldcache",
            "Each package gets an etc/ld.so.cache of what its objects need, for a loader that \
             reads those. Written for the target's architecture without ldconfig. With \
             --closure it answers for all that the package's programs load, as Guix's loader asks.",
        ),
    ],
};

pub(crate) const FIX_WRITING: Section = Section {
    title: "Writing",
    entries: &[
        (
            "scope",
            "Only files that are named, or are below a named folder, are changed. What a \
             strategy makes for a file is put into the file's package or beside the file. \
             farm --closure is the exception, and prints what it changes elsewhere.",
        ),
        (
            "by default",
            "A new file is written beside the old one, brought to the disk and put in its place. \
             Mode, owner, extended attributes and capabilities stay.",
        ),
        (
            "--in-place",
            "The file itself is written: first what is appended, with the old bytes, then the \
             ranges inside. Set-id files and files with capabilities are refused, since the \
             kernel would take their rights away.",
        ),
        (
            "undo",
            "The old bytes lie in a trailer at the end of each file. strip removes it, and with \
             it the way back; what fix wrote keeps working.",
        ),
        (
            "refused",
            "Files with something appended to the ELF image (AppImage, PyInstaller), the loader \
             itself, dynamic edits of static programs, files with several names unless \
             --hardlinks says what to do, set-id files without --setuid.",
        ),
    ],
};

pub(crate) const FIX_JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/fix/1",
            "One object: schema, strategy, dry_run, interrupted, plan (path, edits, outside, \
             answers: needed, exact, hints), creations (path, kind, target, length), files and made (path, \
             status: written, unchanged, refused, not-reached; old_length, new_length, reason, \
             warnings), findings (path, needed, severity: passed-over, left, conflict, refused; \
             what), programs (path, before, after: storms), errors.",
        ),
        (
            "schema becalm/undo/1",
            "One object: schema, dry_run, interrupted, files and removed (as files above), errors.",
        ),
        (
            "schema becalm/verify/1",
            "One object: schema, looked_at, objects (path, answers: strategy, needed, verdict: \
             true, skips, stale, missing, superfluous, malformed; says, is), loads (path, equal, \
             objects, lost, gained, reordered; with --load), indexes (path, differences), damaged \
             (path, program, reason), unjudged (path, strategy, store), errors.",
        ),
    ],
};

pub(crate) const FIX_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm fix --with note --dry-run --store /opt/store /opt/store",
            "What would be written, and what would be left of each program's storm.",
        ),
        ("becalm fix --with absolute ./result", "Calm a package for any loader."),
        (
            "becalm fix --with note --prefix-map $PWD/out=/nix/store/h-name out",
            "In a package's fixup phase, before it is where it will be.",
        ),
        ("becalm verify --load ./result", "Does it still load what it should?"),
        ("becalm undo ./result", "Every byte as it was."),
    ],
};
