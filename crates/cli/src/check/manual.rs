//! The manual's sections of `becalm check`.

use crate::terminal::manual::{ENVIRONMENT, EXIT_STATUS, Section};

/// Last sections of the help and the man page of `becalm check`.
pub(crate) const CHECK: &[&Section] = &[&EXIT_STATUS, &ENVIRONMENT, &JSON, &EXAMPLES];

const JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/check/1",
            "One object: schema, programs (one element a file, in order of path), total (the sum \
             of the storms) and errors (path and reason of each file that could not be checked).",
        ),
        (
            "program",
            "path, kind (program, library, static, mach-o), machine, libc, interpreter, secure, \
             immutable, storm, newer_glibc (libc and storm of the same start by the first glibc \
             without legacy hwcaps subdirectories, if that differs), advice (of one program: \
             before, assumed_store, options), unresolved (needed strings), stop (why the loader \
             would give up, or null), over_budget (with --max-misses), scripts (that lead to it), \
             files (with --files: path, kind, target of a link), probes (with --probes), symbols \
             (with --symbols), slices (of a Mach-O file).",
        ),
        (
            "storm",
            "Counts: objects, search_dirs, probes, hits, missed_opens, missed_stats, \
             hwcaps_misses (of both kinds, those in hwcaps subdirectories).",
        ),
        (
            "option",
            "strategy, scope (the changed files: nothing, program, closure), needs_reader (true \
             if the program's loader does not read it), misses (left; null if it cannot be \
             applied), loader_ns (the estimated time), command (that applies it), refused (the \
             reason).",
        ),
        (
            "probe",
            "needed_by, needed, source (direct, rpath, library-path, runpath, loader-cache, \
             system; if the loader reads them: note, package-cache), path, call (open, stat), \
             outcome (hit, miss, not-a-directory, denied, loop, name-too-long, failed, \
             wrong-class, wrong-machine, not-elf, refused, no-directory).",
        ),
        (
            "symbols",
            "undefined (object, symbol, version, lazy), missing_versions (object, library, version, \
             weak), interposed (symbol, version, definer, others, references, copy), definers \
             (object, definer, symbols), relocations (counts by kind), bindings (with --bindings).",
        ),
        ("text", "Bytes of a path that are not UTF-8 become U+FFFD."),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm check /usr/bin/git", "The cost of starting git."),
        ("becalm check --tree ./result/bin/magick", "The source of each library, and its cost."),
        (
            "becalm check --max-misses 100 ./result",
            "Fail a package's tests when its programs search too much.",
        ),
        ("becalm check --library-path /opt/lib: prog", "The cost with another LD_LIBRARY_PATH."),
        ("becalm check --sysroot ~/arm64 /usr/bin", "All programs of another machine's file tree."),
        (
            "becalm check --reads note,ldcache --store /opt/store prog",
            "The misses with a loader that becalm loader build made.",
        ),
        (
            "becalm check --symbols prog",
            "The results of `ldd -r` and more: undefined symbols, and which definitions win.",
        ),
        (
            "becalm check --files ./tool | cpio -o -H newc > tool.cpio",
            "The files that the start of a tool needs, for an initramfs.",
        ),
        (
            "becalm check --ndjson --shard 1/8 --store /apps /apps > survey-1.ndjson",
            "One eighth of a survey of all programs.",
        ),
        ("becalm check --json --probes prog", "Every probe, for another program to read."),
        (
            "becalm check --against run.json prog",
            "The prediction, compared with a record of `becalm trace --json`.",
        ),
    ],
};
