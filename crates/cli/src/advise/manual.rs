//! The manual's sections of `becalm advise`.

use crate::terminal::manual::{ENVIRONMENT, Section};

/// Last sections of the help and the man page of `becalm advise`.
pub(crate) const ADVISE: &[&Section] = &[&STATUS, &ENVIRONMENT, &JSON, &EXAMPLES];

const STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Each strategy was predicted, whatever it leaves."),
        ("2", "There is no such program, or it is a library, static, or not of Linux."),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/advise/1",
            "One object: path, calmed_by (the index of this session, or null), storm (as it is \
             here), before (misses in an empty environment), assumed_store, options, best (the \
             position in options of what leaves least with the program's own loader, or null).",
        ),
        (
            "option",
            "As in becalm check --json, with command: what applies it, as a shell takes it.",
        ),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm advise inkscape", "Which strategy, before and after."),
        ("becalm advise --store /sw ./prog", "Where packages below /sw never change."),
    ],
};
