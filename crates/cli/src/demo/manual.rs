//! `becalm demo`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm demo`.
pub(crate) const DEMO: &[&Section] = &[&DEMO_STATUS, &DEMO_EXAMPLES];

const DEMO_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "It was shown."),
        ("2", "It could not be: no such program, no room, no C library that audits."),
        ("130", "Interrupted (SIGINT). Nothing is left behind."),
    ],
};

const DEMO_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm demo", "With the program of /usr/bin that has the most libraries."),
        ("becalm demo git", "With git."),
    ],
};
