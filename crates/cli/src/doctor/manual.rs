//! The manual's sections of `becalm doctor`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm doctor`.
pub(crate) const DOCTOR: &[&Section] = &[&STATUS, &VARIABLES, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "The session is calmed, its index is fresh, and all its programs start."),
        ("1", "Something was found; each finding is printed with what mends it."),
        ("2", "The output cannot be written, or a wrong flag."),
    ],
};

const VARIABLES: Section = Section {
    title: "Environment",
    entries: &[
        ("LD_AUDIT", "Names the index of a calmed session."),
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
             index (or null), loader (of /bin/sh, or null), findings (kind, what, remedy; the \
             gravest first).",
        ),
        (
            "index",
            "path, usable, machine, bytes, compared (seconds since 1970), fresh (null where it \
             cannot be used), stores, objects, programs, bound_programs, static_tls, left_out \
             (path, reason, lookups).",
        ),
        (
            "loader",
            "path, libc, takes_index, takes_bindings, reads_notes, reads_package_caches, hwcaps.",
        ),
        (
            "kind",
            "missing, unusable, switched-off, loader, no-index, not-calmed, stale, old-format, \
             static-tls, no-start.",
        ),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm doctor", "Is this session calmed?"),
        ("becalm doctor --json | jq -r '.findings[].kind'", "For a check of a machine's state."),
        (
            "becalm doctor --index /var/lib/becalm/index.so || becalm index --update",
            "Bring an index up to date where that is needed.",
        ),
    ],
};
