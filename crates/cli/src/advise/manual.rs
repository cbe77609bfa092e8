//! The manual's sections of `becalm advise`.

use crate::terminal::manual::{ENVIRONMENT, Section};

/// Last sections of the help and the man page of `becalm advise`.
pub(crate) const ADVISE: &[&Section] = &[&STATUS, &ENVIRONMENT, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Each strategy was predicted."),
        ("2", "The program does not exist, or is a library, static, or not for Linux."),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/advise/1",
            "One object: path, calmed_by (the index of this session, or null), storm (in this \
             environment), estimate (of the time, in nanoseconds), before (misses without an index), before_ns, \
             owner (the package manager of the program, or null), assumed_store, options, best \
             (the position in options of the one that leaves least time and can be proposed, or null).",
        ),
        ("option", "As in becalm check --json."),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm advise inkscape", "The time and the misses that each strategy leaves."),
        ("becalm advise --store /sw ./prog", "The same, if packages below /sw never change."),
    ],
};
