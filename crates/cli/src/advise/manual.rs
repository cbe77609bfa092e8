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
             environment), before (misses without an index), assumed_store, options, best \
             (the position in options of the one that leaves fewest misses with the program's own \
             loader, or null).",
        ),
        ("option", "As in becalm check --json, with command: the shell command that applies it."),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm advise inkscape", "The misses before and after each strategy."),
        ("becalm advise --store /sw ./prog", "The same, if packages below /sw never change."),
    ],
};
