//! The manual's sections of `becalm doctor`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm doctor`.
pub(crate) const DOCTOR: &[&Section] = &[&STATUS, &VARIABLES, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "What there is works: the session's index, or indexes of single programs."),
        ("1", "There are findings; each is printed with its remedy."),
        ("2", "The output cannot be written, or a flag is wrong."),
    ],
};

const VARIABLES: Section = Section {
    title: "Environment",
    entries: &[
        ("LD_AUDIT", "Names the index of the session."),
        ("PATH", "Its programs are checked too, if the session uses an index."),
        ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls: the static TLS of the session."),
        ("BECALM", "The module's switches; off and nobind count here."),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/doctor/1",
            "One object: calmed, modules (of LD_AUDIT: element, path, is), switches, static_tls, \
             index (or null), program (path, first_line, switched_on; or null), kept (indexes of single \
             programs: program, bytes, compared, fresh), left_out (programs in PATH: path, reason, lookups), loader (of /bin/sh, or null), findings (kind, what, remedy; the \
             most serious first).",
        ),
        (
            "index",
            "path, usable, machine, bytes, compared (seconds since 1970), fresh (null if the \
             index cannot be used), stores, objects, programs, bound_programs, static_tls, \
             left_out (path, reason, lookups).",
        ),
        (
            "loader",
            "path, libc, takes_index, takes_bindings, reads_notes, reads_package_caches, hwcaps.",
        ),
        (
            "kind",
            "missing, unusable, bad-links, switched-off, loader, no-index, not-calmed, stale, \
             old-format, static-tls, no-start.",
        ),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm doctor", "Check whether this session uses an index."),
        ("becalm doctor inkscape", "The start of a program, and its own index."),
        (
            "becalm doctor --json | jq -r '.findings[].kind'",
            "The kinds of findings, for \
         monitoring.",
        ),
        (
            "becalm doctor --index /var/lib/becalm/index.so || becalm index --update",
            "Update an index if needed.",
        ),
    ],
};
